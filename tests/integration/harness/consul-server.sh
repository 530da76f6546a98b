#!/usr/bin/env bash
# Brings the Consul server that the tests start to build/consul/consul: Debian 11's, a single file
# that runs anywhere. Later Debians have none. A consul on the PATH is taken instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
. tests/integration/harness/debian-mirror.sh

readonly FOLDER=build/consul
readonly KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

die() {
  echo "consul-server: error: $*" >&2
  echo "consul-server: or put any consul of 1.8 or newer on the PATH" >&2
  exit 3
}

download() {
  local state=$PWD/$FOLDER/apt log=$PWD/$FOLDER/download.log options
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
  echo "deb [signed-by=$KEYRING] $(debian_mirror) bullseye main" >"$state/sources.list"
  # Lists of its own, so that nothing of this machine's apt changes; as the user who runs this,
  # since apt's own could not write here.
  options=(-o "Dir::Etc::SourceList=$state/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$state/lists" -o "Dir::Cache=$state/cache"
    -o APT::Sandbox::User= -o APT::Get::List-Cleanup=0 -o Acquire::Languages=none)
  apt-get "${options[@]}" update >"$log" 2>&1 &&
    (cd "$state" && apt-get "${options[@]}" download consul >>"$log" 2>&1) ||
    die "apt-get could not download consul; see $log"
  dpkg -x "$state"/consul_*.deb "$state/tree"
  mv "$state/tree/usr/bin/consul" "$FOLDER/consul"
  rm -rf "$state"
}

command -v consul >/dev/null && exit
[[ -x $FOLDER/consul ]] && exit
command -v apt-get >/dev/null || die "only apt-get is known here as a way to get consul"
[[ -e $KEYRING ]] || die "$KEYRING is missing: apt-get install debian-archive-keyring"
echo "consul-server: downloading Debian 11's consul to $FOLDER (once)"
download
