#!/bin/sh
# build.sh ARCH ROOT - inside of the build stage: builds einmal for that architecture and collects the root file system of the image
# in ROOT: the binary, the shared objects that it needs and those that they need (read from the files, so that it works for
# other architectures too), their copyright notes, a CA bundle, names for numbers, the folder of the store. /demo gets the demo API.
set -eu
native=$(dpkg --print-architecture)
arch=${1:-$native}
root=$2
case $arch in
amd64) triplet=x86_64-linux-gnu ;;
arm64) triplet=aarch64-linux-gnu ;;
*)
    echo "no such architecture here: $arch (amd64 and arm64 are)" >&2
    exit 1
    ;;
esac

set --
if [ "$arch" != "$native" ]; then
    export PKG_CONFIG_LIBDIR="/usr/lib/$triplet/pkgconfig:/usr/share/pkgconfig"
    set -- "-DCMAKE_C_COMPILER=$triplet-gcc" -DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_LIBRARY_ARCHITECTURE=$triplet" \
        "-DOPENSSL_ROOT_DIR=/usr" "-DOPENSSL_CRYPTO_LIBRARY=/usr/lib/$triplet/libcrypto.so" "-DOPENSSL_SSL_LIBRARY=/usr/lib/$triplet/libssl.so"
fi
cmake -G Ninja -S . -B /build -DCMAKE_BUILD_TYPE=Release -DEINMAL_TESTS=OFF -DEINMAL_DEMO=ON "$@"
cmake --build /build

strip=strip
[ "$arch" = "$native" ] || strip=$triplet-strip
mkdir -p "$root/usr/bin" "$root/usr/lib/$triplet" "$root/usr/share/doc" "$root/usr/lib/ssl" "$root/etc/ssl/certs" "$root/etc/einmal" /demo/usr/bin
"$strip" -o "$root/usr/bin/einmal" /build/einmal
"$strip" -o /demo/usr/bin/legacy-api /build/legacy-api
cp docker/legacy-api/careless-client /demo/usr/bin/

# ---- shared objects, whatever they need included

needed() { # FILE: names
    readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'
}
find_library() { # NAME: path
    for folder in "/usr/lib/$triplet" "/lib/$triplet"; do
        [ -e "$folder/$1" ] && echo "$folder/$1" && return
    done
    echo "$1 is needed, but not here" >&2
    exit 1
}
todo=$(needed "$root/usr/bin/einmal")
libraries=
while [ -n "$todo" ]; do
    next=
    for name in $todo; do
        case " $libraries " in *" $name "*) continue ;; esac
        libraries="$libraries $name"
        path=$(find_library "$name")
        cp -L "$path" "$root/usr/lib/$triplet/$name"
        readlink -f "$path" >>/tmp/collected
        next="$next $(needed "$path")"
    done
    todo=$(echo "$next" | xargs)
done
loader=$(readelf -l "$root/usr/bin/einmal" | sed -n 's/.*interpreter: \(.*\)\]/\1/p')
mkdir -p "$root$(dirname "$loader")"
ln -sf "../usr/lib/$triplet/$(basename "$loader")" "$root$loader"
[ -e "$root/usr/lib/$triplet/$(basename "$loader")" ] || cp -L "$(find_library "$(basename "$loader")")" "$root/usr/lib/$triplet/"

# ---- names, certificates, the store's folder

cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
ln -s /etc/ssl/certs/ca-certificates.crt "$root/usr/lib/ssl/cert.pem"
printf 'root:x:0:0:root:/:/none\neinmal:x:65532:65532:einmal:/:/none\n' >"$root/etc/passwd"
printf 'root:x:0:\neinmal:x:65532:\n' >"$root/etc/group"
printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$root/etc/nsswitch.conf"
mkdir -p "$root/var/lib/einmal"
chown 65532:0 "$root/var/lib/einmal"
chmod 0770 "$root/var/lib/einmal"

# ---- what is inside

mkdir -p "$root/usr/share/doc/einmal"
cp LICENSE "$root/usr/share/doc/einmal/copyright"
packages=$(while read -r file; do dpkg -S "$file" 2>/dev/null || dpkg -S "${file#/usr}"; done </tmp/collected |
    sed 's/: .*//; s/:.*//' | sort -u)
for package in $packages ca-certificates; do
    mkdir -p "$root/usr/share/doc/$package"
    cp -L "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/" 2>/dev/null || true
done
# shellcheck disable=SC2086 # a list of words
sh docker/image/sbom.sh "$arch" $packages ca-certificates node-llhttp >"$root/usr/share/doc/einmal/sbom.spdx.json"
