#!/bin/sh
# sbom.sh ARCH PACKAGE… - what is in the image as SPDX 2.3 JSON: einmal, and the Debian packages that its files come from, by version.
set -eu
arch=$1
shift
packages=$*
version=$(sed -n 's/^project(einmal VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
created=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" +%Y-%m-%dT%H:%M:%SZ)

cat <<TEXT
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "einmal-$version-$arch",
  "documentNamespace": "urn:einmal:sbom:$version:$arch:$created",
  "creationInfo": { "created": "$created", "creators": ["Tool: docker/image/sbom.sh"] },
  "packages": [
    {
      "SPDXID": "SPDXRef-einmal", "name": "einmal", "versionInfo": "$version", "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
      "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION", "primaryPackagePurpose": "APPLICATION"
    }
TEXT
for package in $packages; do
    full=$package
    dpkg-query -W "$package:$arch" >/dev/null 2>&1 && full=$package:$arch
    found=$(dpkg-query -W -f '${Version} ${Architecture} ${source:Package}\n' "$full" | head -1)
    # shellcheck disable=SC2086 # three words
    set -- $found "$package"
    cat <<TEXT
    ,{
      "SPDXID": "SPDXRef-deb-$(echo "$4" | tr -c 'A-Za-z0-9.\n' '-')", "name": "$4", "versionInfo": "$1", "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
      "supplier": "Organization: Debian", "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
      "externalRefs": [{ "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
        "referenceLocator": "pkg:deb/debian/$4@$(echo "$1" | sed 's/+/%2B/g; s/:/%3A/g; s/~/~/g')?arch=$2&upstream=$3" }]
    }
TEXT
done
printf '  ],\n  "relationships": [\n    { "spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-einmal" }'
for package in $packages; do
    printf ',\n    { "spdxElementId": "SPDXRef-einmal", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": "SPDXRef-deb-%s" }' \
        "$(echo "$package" | tr -c 'A-Za-z0-9.\n' '-')"
done
printf '\n  ]\n}\n'
