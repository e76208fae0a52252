#!/usr/bin/env bash
# Put the real components that tests compare with into a folder (default .tools/bin).
#
# kube-apiserver, kube-scheduler, kube-controller-manager, kubectl and helm are built from the Go modules beside this file;
# etcd and Prometheus come from the system's package manager, or are linked when already there.
# Safe to repeat: what is there in the wanted version is left alone. What cannot be had is named in
# the summary at the end; the tests that need it are then skipped with their reason.
# KUBERNETES=1.36.1 builds that version instead of the one of kubernetes/go.mod.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
bin=${1:-$root/.tools/bin}
stamps=$(dirname "$bin")/stamps
mkdir -p "$bin" "$stamps"
ready=() skipped=() modules=$here mode=readonly

calm() { if command -v nice >/dev/null; then nice -n 5 "$@"; else "$@"; fi; }

# version_of MODULE_FOLDER MODULE_PATH: the version that the folder's go.mod requires.
version_of() {
  awk -v path="$2" '{ sub(/^require[ \t]+/, "") } $1 == path { print $2; exit }' "$modules/$1/go.mod"
}

# other_kubernetes VERSION: copies of the modules that ask for that Kubernetes. Its parts carry the same
# numbers behind v0; what else it needs Go finds out, and checks with its checksum database.
other_kubernetes() {
  local was now=${1#v}
  was=$(version_of kubernetes k8s.io/kubernetes) was=${was#v}
  modules=$(dirname "$bin")/modules mode=mod
  mkdir -p "$modules"
  cp -r "$here/kubernetes" "$here/helm" "$modules"
  awk '!/\/\/ indirect$/ || $1 == "k8s.io/kubernetes"' "$here/kubernetes/go.mod" |
    sed -e "s/ v${was//./\\.}\>/ v$now/" -e "s/ v${was/#1./0\\.}\>/ v${now/#1./0.}/" \
      >"$modules/kubernetes/go.mod"
}

# build NAME MODULE_FOLDER PACKAGE LDFLAGS: one static binary, in place only when it is whole.
build() {
  local name=$1 folder=$2 package=$3 ldflags=$4 key
  key=$({ cat "$here/$folder/go.mod" "$here/$folder/go.sum"; echo "$package $ldflags"; } | cksum | tr ' ' '-')
  if [ -x "$bin/$name" ] && [ "$(cat "$stamps/$name" 2>/dev/null)" = "$key" ]; then
    ready+=("$name")
    return
  fi
  if ! command -v go >/dev/null; then
    skipped+=("$name: needs Go (see the go line of tests/apiserver/tools/$folder/go.mod)")
    return
  fi
  echo "building $name ..."
  if (cd "$modules/$folder" && CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -buildvcs=false" \
        calm go build -mod=$mode -trimpath -ldflags "-s -w $ldflags" -o "$bin/.$name.new" "$package"); then
    mv "$bin/.$name.new" "$bin/$name"
    echo "$key" >"$stamps/$name"
    ready+=("$name")
  else
    rm -f "$bin/.$name.new"
    skipped+=("$name: the Go build failed, see above")
  fi
}

# from_system NAME PACKAGE: link a program of the system, after installing its package if possible.
from_system() {
  local name=$1 package=$2 found
  if [ -x "$bin/$name" ]; then
    ready+=("$name")
    return
  fi
  if ! command -v "$name" >/dev/null && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "installing $package ..."
    install_package "$package" || true
  fi
  if found=$(command -v "$name"); then
    ln -sf "$found" "$bin/$name"
    ready+=("$name")
  else
    skipped+=("$name: not on this machine; install the package $package (as root, by hand or apt-get)")
  fi
}

# install_package PACKAGE: without starting its service; the lists are fetched only when needed.
install_package() {
  local options=(-y -qq --no-install-recommends -o DPkg::Lock::Timeout=120)
  export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
  apt-get install "${options[@]}" "$1" </dev/null >/dev/null 2>&1 && return
  apt-get update -qq </dev/null >/dev/null && apt-get install "${options[@]}" "$1" </dev/null >/dev/null
}

[ -z "${KUBERNETES:-}" ] || other_kubernetes "$KUBERNETES"
kube=$(version_of kubernetes k8s.io/kubernetes)
minor=$(echo "${kube#v}" | cut -d. -f2)
at=k8s.io/component-base/version
kube_flags="-X $at.gitVersion=$kube -X $at.gitMajor=1 -X $at.gitMinor=$minor -X $at.gitTreeState=clean"
helm=$(version_of helm helm.sh/helm/v4)

from_system etcd etcd-server
build kube-apiserver kubernetes k8s.io/kubernetes/cmd/kube-apiserver "$kube_flags"
build kube-scheduler kubernetes k8s.io/kubernetes/cmd/kube-scheduler "$kube_flags"
build kube-controller-manager kubernetes k8s.io/kubernetes/cmd/kube-controller-manager "$kube_flags"
build kubectl kubernetes k8s.io/kubernetes/cmd/kubectl "$kube_flags"
build helm helm helm.sh/helm/v4/cmd/helm "-X helm.sh/helm/v4/internal/version.version=$helm"
from_system prometheus prometheus
from_system promtool prometheus

echo "ready in $bin: ${ready[*]:-nothing}"
for line in ${skipped[@]+"${skipped[@]}"}; do echo "SKIPPED $line"; done
