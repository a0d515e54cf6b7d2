#!/usr/bin/env bash
# Prepares a checkout for building: system packages and .venv. Run by every target of the Makefile.
#
#   tools/setup.sh [--python /path/to/python]
#
# Nothing is done twice: a fingerprint of the inputs (package lists, this script, the Python) is kept beside what it
# produced, and a run whose fingerprints match takes some milliseconds.
#
# With --python and a torch >= 2.11 in that Python, .venv is made on top of it and uses its torch. Otherwise .venv is
# made from the newest Python >= 3.11 on the PATH and gets the torch that tools/requirements-torch.txt pins.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly MIN_GXX=12
chosen_python=""
while [ $# -gt 0 ]; do
  case "$1" in
    --python) chosen_python="$2"; shift 2 ;;
    *) echo "tools/setup.sh: unknown argument '$1'" >&2; exit 2 ;;
  esac
done

say() { echo "[setup] $*"; }
die() { echo "[setup] $*" >&2; exit 1; }

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
  local candidate
  if [ -n "$chosen_python" ]; then
    candidate=$(command -v "$chosen_python") || die "PYTHON=$chosen_python: no such program"
    is_new_enough "$candidate" || die "PYTHON=$chosen_python: Shoal needs Python 3.11 or later"
    echo "$candidate"
    return
  fi
  for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null && is_new_enough "$candidate"; then
      command -v "$candidate"
      return
    fi
  done
  die "no Python >= 3.11 on the PATH; name one with 'make PYTHON=/path/to/python'"
}

# The Debian packages that this Python lacks for making environments and compiling extension modules.
python_packages() {
  "$1" - <<'PY'
import importlib.util as u, os, sys, sysconfig
name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
if u.find_spec("ensurepip") is None or u.find_spec("venv") is None:
    print(name + "-venv")
if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
    print(name + "-dev")
PY
}

install_packages() {  # install_packages NAME...: by apt where allowed, else says what to install and stops
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    else
      die "these packages are missing and installing them needs root; run: apt-get install $*"
    fi
  fi
  say "installing with apt: $*"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
    </dev/null >/dev/null
}

setup_system() {  # setup_system PYTHON
  local stamp=build/.setup-system key missing=() package
  key=$(cat tools/apt-packages.txt tools/setup.sh <(echo "$1") | sha256sum)
  [ "$(cat "$stamp" 2>/dev/null)" = "$key" ] && return
  if ! command -v dpkg-query >/dev/null; then
    say "no dpkg here: install the equivalents of tools/apt-packages.txt by hand; going on without"
  else
    for package in $(grep -v '^#' tools/apt-packages.txt) $(python_packages "$1"); do
      [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
  fi
  local gxx
  gxx=$(g++ -dumpversion) || die "g++ is missing"
  [ "${gxx%%.*}" -ge "$MIN_GXX" ] || die "g++ $gxx is too old: Shoal needs g++ $MIN_GXX or later (C++20)"
  mkdir -p build
  echo "$key" >"$stamp"
}

# Prints the version of the torch that a Python brings if it is one that Shoal supports.
usable_torch() {
  "$1" - 2>/dev/null <<'PY' || true
import importlib.metadata as m
version = m.version("torch")
if tuple(int(part) for part in version.split("+")[0].split(".")[:2]) >= (2, 11):
    print(version)
PY
}

make_venv() {  # make_venv PYTHON [--on-top]
  local flags=() site
  say "making .venv with $1"
  [ "${2:-}" = --on-top ] && flags=(--system-site-packages)
  "$1" -m venv "${flags[@]}" .venv
  if [ "${2:-}" = --on-top ] && ! .venv/bin/python -c 'import torch.version' 2>/dev/null; then
    # PYTHON is itself a virtual environment, whose packages --system-site-packages does not show.
    site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    "$1" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' >"$site/_shoal_base.pth"
  fi
}

install_entry_points() {  # the checkout itself: python/ on sys.path, and the command `shoal`
  local site
  site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  echo "$PWD/python" >"$site/shoal.pth"
  cat >.venv/bin/shoal <<SH
#!$PWD/.venv/bin/python
import sys

from shoal._cli import main

sys.exit(main())
SH
  chmod +x .venv/bin/shoal
}

cmake_is_new_enough() {
  command -v cmake >/dev/null || return 1
  local version
  version=$(cmake --version | sed -n 's/^cmake version //p')
  [ "$(printf '%s\n3.25\n' "$version" | sort -V | head -1)" = 3.25 ]
}

setup_venv() {  # setup_venv PYTHON
  local stamp=.venv/.shoal-setup key base_torch="" made_with=.venv/.shoal-python on_top=.venv/.shoal-on-top
  key=$(cat tools/requirements-torch.txt tools/requirements-dev.txt tools/setup.sh <(echo "$PWD") | sha256sum)
  if [ -n "$chosen_python" ] && [ "$(cat "$made_with" 2>/dev/null)" != "$1" ]; then
    rm -rf .venv
  elif [ -d .venv ] && ! .venv/bin/python -c '' 2>/dev/null; then
    say ".venv does not run any more (was it moved?): making it again"
    rm -rf .venv
  fi
  [ "$(cat "$stamp" 2>/dev/null)" = "$key" ] && return
  if [ ! -d .venv ]; then
    [ -z "$chosen_python" ] || base_torch=$(usable_torch "$1")
    make_venv "$1" ${base_torch:+--on-top}
    echo "$1" >"$made_with"
    [ -z "$base_torch" ] || touch "$on_top"
  elif [ -e "$on_top" ]; then
    base_torch=$(usable_torch .venv/bin/python)
  fi
  local pip=(.venv/bin/python -m pip install --quiet --disable-pip-version-check)
  if [ -n "$base_torch" ]; then
    say "using torch $base_torch of $(cat "$made_with")"
  else
    say "installing $(grep -v '^#' tools/requirements-torch.txt) into .venv"
    "${pip[@]}" -r tools/requirements-torch.txt
  fi
  say "installing the tools for building, testing and linting into .venv"
  # On top of another Python, its packages do not count as installed: their programs are not in .venv/bin.
  "${pip[@]}" ${base_torch:+--ignore-installed} -r tools/requirements-dev.txt
  # Only where the distribution's own are missing or too old.
  cmake_is_new_enough || "${pip[@]}" 'cmake>=3.25'
  command -v ninja >/dev/null || "${pip[@]}" ninja
  install_entry_points
  echo "$key" >"$stamp"
}

python=$(find_python)
setup_system "$python"
setup_venv "$python"
