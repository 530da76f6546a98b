#!/usr/bin/env bash
# Makes the images that compose takes from a registry where none can be reached: each from Debian's
# packages, under its name in .env, with the same commands in it. What is there or can be pulled is
# left alone. Prints the names that cannot be had at all. Needs root and a Docker engine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/integration/harness/debian-mirror.sh

readonly KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

say() { echo "base-images: $*" >&2; }

full_name_of() { sed -n "s/^$1=//p" .env; }

# Without the digest: an image that was not pulled has none.
name_of() { full_name_of "$1" | cut -d@ -f1; }

there() { docker image inspect "$1" >/dev/null 2>&1 || docker pull --quiet "$1" >/dev/null 2>&1; }

debian() {
  local work=$(mktemp -d)
  debootstrap --keyring "$KEYRING" --variant=minbase trixie "$work/tree" "$(debian_mirror)" \
    >"$work/log" 2>&1 || { tail "$work/log" >&2; return 1; }
  rm -rf "$work"/tree/var/{cache/apt/archives/*.deb,lib/apt/lists/*} \
    "$work"/tree/usr/share/{doc,man,locale}/*
  tar -C "$work/tree" -c . | docker import --change 'CMD ["bash"]' - "$1" >/dev/null
  rm -rf --one-file-system "$work"
}

# build NAME CONTEXT: on the Debian that was made first.
build() {
  local output
  output=$({ echo "FROM $(name_of DEBIAN_IMAGE)"; cat; } |
    docker build --tag "$1" --file - "$2" 2>&1) || { echo "$output" >&2; return 1; }
}

install='RUN apt-get update && apt-get install -y --no-install-recommends'

redis() {
  build "$1" tests/compose <<END
$install redis-server
USER redis
WORKDIR /tmp
CMD ["redis-server"]
END
}

prometheus() {
  build "$1" tests/compose <<END
$install prometheus && install -d -o nobody /prometheus
USER nobody
WORKDIR /prometheus
ENTRYPOINT ["prometheus"]
END
}

consul() {
  local context=build/consul-image
  bash tests/integration/harness/consul-server.sh
  install -D "$(PATH=build/consul:$PATH type -P consul)" "$context/consul"
  build "$1" "$context" <<END
COPY consul /bin/
ENTRYPOINT ["consul"]
END
}

for kind in debian redis consul prometheus grafana; do
  name=$(name_of "${kind^^}_IMAGE")
  if there "$(full_name_of "${kind^^}_IMAGE")" || docker image inspect "$name" >/dev/null 2>&1; then
    continue
  elif declare -F "$kind" >/dev/null; then
    "$kind" "$name"
    say "$name: made from Debian's packages"
  else
    say "$name: neither a registry nor a package of Debian's has it"
    echo "$name"
  fi
done
