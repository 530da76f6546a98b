#!/usr/bin/env bash
# Builds the filter to control_plane/isocost/data/isocost.wasm on any machine that a user has:
# with this machine's own wasm32-wasip1 target, else with one added by rustup, else with Debian
# 13's toolchain in a tree of its own (root on Debian or Ubuntu).
# With --test-trap: builds build/isocost-trap.wasm instead, which fails when it is told to.
# With --floor: builds build/isocost-floor.wasm instead, what the filter's cost is compared with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

say() { echo "filter: $*"; }
die() { echo "filter: error: $*" >&2; exit 3; }

case "$*" in
  "") readonly OUTPUT=../control_plane/isocost/data/isocost.wasm CRATE=shell FEATURES= ;;
  --test-trap) readonly OUTPUT=../build/isocost-trap.wasm CRATE=shell FEATURES=test-trap ;;
  --floor) readonly OUTPUT=../build/isocost-floor.wasm CRATE=floor FEATURES= ;;
  *) die "usage: build.sh [--test-trap | --floor]" ;;
esac
readonly PACKAGE=$([[ $CRATE == shell ]] && echo isocost-filter || echo isocost-floor)
readonly TRIGGER=x-isocost-test-trap     # in the file of a test build, and in no other
readonly TARGET=wasm32-wasip1
# More inlining than at opt-level "z" alone makes the module smaller by 2 %. The features are what
# newer Rusts use by themselves: copies by the engine's own instruction, for one.
readonly RUST_FLAGS="-C llvm-args=-inline-threshold=25 -C target-feature=+bulk-memory,+sign-ext,+mutable-globals,+nontrapping-fptoint,+simd128"
readonly STAMP=target/${OUTPUT##*/}.stamp
readonly MAX_BYTES=130048                # 127 KiB
readonly MIN_WASM_OPT=116                # older ones reject what Rust emits today
readonly MIN_RUST=85                     # 1.85, as in Cargo.toml
readonly CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/isocost
readonly TREE=$CACHE/trixie
readonly DEBIAN_PACKAGES=(cargo rustc libstd-rust-dev-wasm32 lld gcc libc6-dev binaryen)

inputs_hash() {
  find build.sh Cargo.toml Cargo.lock core/Cargo.toml core/src "$CRATE/Cargo.toml" "$CRATE/src" \
    -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1
}

# --- this machine's toolchain ---------------------------------------------------------------

has_target() {
  local version libdir
  version=$(rustc --version 2>/dev/null) || return 1
  [[ $version =~ ^rustc\ 1\.([0-9]+) && ${BASH_REMATCH[1]} -ge $MIN_RUST ]] || return 1
  libdir=$(rustc --print target-libdir --target "$TARGET" 2>/dev/null) || return 1
  compgen -G "$libdir/libstd-*.rlib" >/dev/null && command -v cargo >/dev/null
}

add_target() {
  command -v rustup >/dev/null && timeout 60 rustup target add "$TARGET" >/dev/null 2>&1 && has_target
}

build_here() {
  # Distributions' rustc comes without the linker that rustup's brings along.
  if [[ ! -e $(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/rust-lld ]]; then
    command -v wasm-ld >/dev/null || die "rustc has no rust-lld; install lld (it brings wasm-ld)"
    export CARGO_TARGET_WASM32_WASIP1_LINKER=wasm-ld
  fi
  # A tenth of the file is padding that wasm-opt would take away; not every machine has it. Nor does
  # the path of this machine's crates belong into the file.
  export CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS="$RUST_FLAGS -C link-arg=--compress-relocations \
    --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src="
  cargo build --locked --release --package "$PACKAGE" --features "$FEATURES" \
    --target "$TARGET" --target-dir target
  built=target/$TARGET/release/${PACKAGE/-/_}.wasm
}

# --- Debian 13's toolchain in a tree ----------------------------------------------------------

tree_complete() { [[ -x $TREE/usr/bin/cargo && -x $TREE/usr/bin/wasm-opt && -e $TREE/.isocost-complete ]]; }

# Runs a command in a tree: in_tree ROOT COMMAND...
in_tree() {
  local root=$1; shift
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive ${http_proxy:+http_proxy="$http_proxy"} \
    ${https_proxy:+https_proxy="$https_proxy"} "$@"
}

remove_tree() {
  local mounted
  [[ -e $1 ]] || return 0
  # An interrupted debootstrap can leave /proc mounted inside.
  awk -v root="$(realpath "$1")/" 'index($2, root) == 1 {print $2}' /proc/mounts | sort -r |
    while read -r mounted; do umount "$mounted"; done
  rm -rf --one-file-system "$1"
}

# The mirror that this machine's apt uses, if it is Debian's: another's has no Debian 13.
mirror() {
  [[ $(distribution) == debian ]] || return 0
  local uri
  uri=$(sed -n 's/^URIs:[[:space:]]*\([^[:space:]]*\/debian\)\/\?\([[:space:]].*\)\?$/\1/p' \
    /etc/apt/sources.list.d/*.sources 2>/dev/null | head -n 1)
  [[ $uri ]] || uri=$(sed -n 's/^deb[[:space:]]\+\(\[[^]]*\][[:space:]]*\)\?\([^[:space:]]*\/debian\)\/\?[[:space:]].*/\2/p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | head -n 1)
  echo "$uri"
}

distribution() { (. /etc/os-release 2>/dev/null && echo "${ID:-}") || true; }

can_make_tree() { [[ $EUID == 0 && $(distribution) =~ ^(debian|ubuntu)$ ]]; }

make_tree() {
  say "making Debian 13's toolchain tree in $TREE (once, about a minute)"
  local partial=$TREE.partial log=$CACHE/trixie.log missing=()
  command -v debootstrap >/dev/null || missing+=(debootstrap)
  [[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]] || missing+=(debian-archive-keyring)
  if [[ ${#missing[@]} -gt 0 ]]; then
    { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 ||
      die "apt-get could not install ${missing[*]}; see $log"
  fi
  remove_tree "$TREE"
  remove_tree "$partial"
  # shellcheck disable=SC2046 # no mirror is no argument
  debootstrap --variant=minbase --include=ca-certificates trixie "$partial" $(mirror) \
    >"$log" 2>&1 || die "debootstrap failed; see $log"
  cp -L /etc/resolv.conf "$partial/etc/resolv.conf"
  in_tree "$partial" apt-get update >>"$log" 2>&1 &&
    in_tree "$partial" apt-get install -y --no-install-recommends "${DEBIAN_PACKAGES[@]}" >>"$log" 2>&1 ||
    die "apt-get failed in $partial; see $log"
  in_tree "$partial" apt-get clean
  touch "$partial/.isocost-complete"
  mv "$partial" "$TREE"
}

# Crates into $TREE/isocost/vendor: by this machine's cargo, which knows its way to the registry,
# else by the tree's.
vendor() {
  local work=$TREE/isocost lock
  lock=$(sha256sum <Cargo.lock)
  [[ -d $work/vendor && $(cat "$work/vendor.lock" 2>/dev/null) == "$lock" ]] && return
  rm -rf "$work/vendor" "$work/vendor.lock"
  if ! { command -v cargo >/dev/null && cargo vendor --locked --quiet "$work/vendor" >/dev/null; }; then
    say "fetching crates with the tree's cargo"
    cp -L /etc/resolv.conf "$TREE/etc/resolv.conf"
    cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$TREE/etc/ssl/certs/ca-certificates.crt" ||
      say "no CA bundle on this machine, using the tree's"
    in_tree "$TREE" sh -c 'cd /isocost/src && cargo vendor --locked --quiet ../vendor >/dev/null' ||
      die "the crates could not be fetched"
  fi
  echo "$lock" >"$work/vendor.lock"
}

have_tree() {
  mkdir -p "$CACHE"
  exec 9>"$CACHE/trixie.lock"
  flock 9
  tree_complete || make_tree
}

build_in_tree() {
  can_make_tree || die "no Rust with the $TARGET target here. Two ways out:
  - install Rust >= 1.$MIN_RUST from https://rustup.rs and run: rustup target add $TARGET
  - run this as root on Debian or Ubuntu: it then makes a Debian 13 tree with the toolchain"
  local work=$TREE/isocost
  have_tree
  # Copied, not mounted, so that nothing stays behind; with new times, so that cargo never takes
  # another checkout's objects for these.
  rm -rf "$work/src"
  mkdir -p "$work/src/.cargo"
  cp -r Cargo.toml Cargo.lock core shell floor "$work/src/"
  vendor
  printf '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\ndirectory = "/isocost/vendor"\n' \
    >"$work/src/.cargo/config.toml"
  in_tree "$TREE" env CARGO_TARGET_WASM32_WASIP1_LINKER=wasm-ld \
    CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS="$RUST_FLAGS --remap-path-prefix=/isocost/vendor=" \
    sh -c "cd /isocost/src &&
    cargo build --locked --offline --release --package $PACKAGE --features '$FEATURES' \
      --target $TARGET --target-dir ../target"
  built=$work/target/$TARGET/release/${PACKAGE/-/_}.wasm
}

# --- size -------------------------------------------------------------------------------------

# What Rust emits for this target; nothing more, so that wasm-opt adds nothing that Envoy lacks.
readonly WASM=(--enable-bulk-memory --enable-sign-ext --enable-mutable-globals
  --enable-nontrapping-float-to-int --enable-simd --enable-multivalue --enable-reference-types)
# Nothing lies in the lowest KiB: it is the end of the stack.
readonly OPTIMISE=(--low-memory-unused -Oz --flatten --rereloop -Oz --gufa-optimizing -Oz
  --const-hoisting --converge
  --strip-debug --strip-producers --strip-target-features)

# The SDK exports every callback of the ABI. Envoy calls those that are there, so what the crate does
# not implement only costs, in the file and at each request.
callbacks() {
  local name
  for name in vm_start configure tick queue_ready request_headers request_body request_trailers \
    response_headers response_body response_trailers done log http_call_response foreign_function; do
    ! grep -rqE --exclude-dir=tests "fn on_(http_)?$name\(" "$CRATE/src" || echo "proxy_on_$name"
  done
  ! grep -rq "fn on_grpc_stream_message(" "$CRATE/src" || echo proxy_on_grpc_receive
  ! grep -rq "fn on_grpc_stream_close(" "$CRATE/src" || echo proxy_on_grpc_close
}

# Empties the SDK's own host calls in a module's text: its traits bring them along as methods, with
# what they panic on, and its dispatcher a root context that has them all and is never made. Nobody
# calls them (clippy refuses), but they are in the tables through which contexts are reached, so
# that no tool sees it. Only the floor does call them. With them goes the standard way to print a
# panic, a twentieth of the module, and all formatting, which only that would do: the filter says
# where it panicked (the third parameter) itself.
empty_unused() {
  [[ $CRATE == shell ]] || { cat; return; }
  awk '/^ \(func / {
      empty = /proxy_wasm9hostcalls/ && !/open_grpc_stream|set_effective_context|serialize_map/ ||
        /proxy_wasm6traits/ && !/[0-9](on_|create_|get_type)/ ||
        /4core3fmt|core\.\.fmt|FormatStringPayload|default_alloc_error_hook/
      hook = /9panicking(20rust_panic|15panic)_with_hook/
      print
      if (hook) print "  (call $isocost_panicked (local.get $2))"
      if (empty || hook) print "  (unreachable)"
      next
    }
    /^ \)/ { empty = hook = 0 }
    !empty && !hook'
}

panicked() { [[ $CRATE != shell ]] || echo isocost_panicked; }

# What the host reaches, as wasm-metadce reads it.
roots() {
  local name separator='['
  for name in memory _initialize proxy_abi_version_0_2_1 proxy_on_memory_allocate \
    proxy_on_context_create proxy_on_delete $(panicked) $(callbacks); do
    printf '%s\n{"name": "%s", "root": true, "export": "%s"}' "$separator" "$name" "$name"
    separator=,
  done
  echo ']'
}

# Shrinks DIR/in.wasm to DIR/out.wasm; WITHIN is how the command sees DIR: binaryen DIR WITHIN [IN_TREE...]
binaryen() {
  local dir=$1 within=$2; shift 2
  roots >"$dir/roots.json"
  "$@" wasm-metadce "${WASM[@]}" -g --graph-file "$within/roots.json" "$within/in.wasm" \
    -o "$within/reached.wasm" >/dev/null
  "$@" wasm-dis "${WASM[@]}" "$within/reached.wasm" -o "$within/reached.wat"
  empty_unused <"$dir/reached.wat" >"$dir/emptied.wat"
  "$@" wasm-as "${WASM[@]}" "$within/emptied.wat" -o "$within/emptied.wasm"
  "$@" wasm-opt "${WASM[@]}" "${OPTIMISE[@]}" "$within/emptied.wasm" -o "$within/out.wasm"
}

shrink() {
  local version dir
  version=$(wasm-opt --version 2>/dev/null | sed -n 's/^wasm-opt version \([0-9]*\).*/\1/p') || true
  if [[ ${version:-0} -ge $MIN_WASM_OPT ]] &&
    command -v wasm-metadce >/dev/null && command -v wasm-dis >/dev/null && command -v wasm-as >/dev/null; then
    dir=target/shrink
    mkdir -p "$dir"
    cp "$built" "$dir/in.wasm"
    binaryen "$dir" "$dir"
    shrunk_by="wasm-opt $version"
  elif can_make_tree && { tree_complete || [[ $(stat -c %s "$built") -gt $MAX_BYTES ]]; }; then
    have_tree
    dir=$TREE/isocost
    mkdir -p "$dir"
    cp "$built" "$dir/in.wasm"
    binaryen "$dir" /isocost in_tree "$TREE"
    shrunk_by="wasm-opt of Debian 13's tree"
  else
    cp "$built" "$OUTPUT.partial"
    shrunk_by=""
    return
  fi
  cp "$dir/out.wasm" "$OUTPUT.partial"
}

# Each build has the trigger exactly if it is the test build: whatever went wrong before this, a
# filter that fails on demand never becomes the product's file.
require_right_build() {
  local found=
  ! grep -q "$TRIGGER" "$OUTPUT.partial" || found=test-trap
  [[ $found == "$FEATURES" ]] && return
  rm "$OUTPUT.partial"
  die "features '$found' were built where '$FEATURES' belongs: not installed as $OUTPUT"
}

main() {
  local inputs built shrunk_by bytes way
  inputs=$(inputs_hash)
  if [[ -e $OUTPUT && -e $STAMP && $(cat "$STAMP") == "$inputs $(sha256sum <"$OUTPUT")" ]]; then
    say "up to date: $(stat -c %s "$OUTPUT") bytes"
    return
  fi
  mkdir -p target "$(dirname "$OUTPUT")"
  # Both builds leave their result in one place.
  exec 8>target/build.lock
  flock 8
  if has_target; then
    way="this machine's $TARGET target"; build_here
  elif add_target; then
    way="the $TARGET target, added by rustup"; build_here
  else
    way="Debian 13's toolchain in $TREE"; build_in_tree
  fi
  shrink
  require_right_build
  bytes=$(stat -c %s "$OUTPUT.partial")
  if [[ $bytes -gt $MAX_BYTES && $shrunk_by ]]; then
    rm "$OUTPUT.partial"
    die "$bytes bytes; at most $MAX_BYTES are allowed"
  fi
  mv "$OUTPUT.partial" "$OUTPUT"
  echo "$inputs $(sha256sum <"$OUTPUT")" >"$STAMP"
  say "built with $way, ${shrunk_by:-no wasm-opt (binaryen) >= $MIN_WASM_OPT found, so not shrunk}: $bytes bytes"
}

main
