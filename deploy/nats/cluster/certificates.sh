#!/bin/sh
# Writes a certificate authority and a certificate for each node into the directory certificates. An authority that
# exists stays; the certificates of the nodes are issued again. They are valid for clients and servers, since a node is
# both on its routes.
set -eu
umask 077
mkdir -p certificates
cd certificates

# The name and the address of each node. The address of the loopback interface is for programs on the node itself.
nodes="a=127.0.0.1 b=127.0.0.2 c=127.0.0.3"

if [ ! -e ca.key ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -sha256 -days 3650 -subj "/CN=Coppice NATS" -keyout ca.key -out ca.pem
fi
for node in $nodes; do
  name=nats-${node%%=*} address=${node#*=}
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -sha256 -subj "/CN=$name" -keyout "$name.key" -out "$name.csr"
  printf 'subjectAltName=DNS:%s,DNS:localhost,IP:127.0.0.1,IP:%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$name" "$address" > "$name.ext"
  openssl x509 -req -sha256 -days 365 -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -extfile "$name.ext" -out "$name.pem"
  rm "$name.csr" "$name.ext"
done
