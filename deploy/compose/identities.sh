#!/bin/sh
# The security officer of docker-compose.yml: runs before the bus, as the only container that holds the CA and all seeds.
#
#   docker compose run --rm identities                  make what is missing, and hand each container its own (as `up` does)
#   docker compose run --rm identities node NAME        identities for another machine; then: docker compose kill -s HUP nats
#   docker compose run --rm -T identities show FILE     print ca.crt or an identity, launcher-NAME.nk say
#   docker compose run --rm identities rotate ...       any other command of `phalanx security`, on our folder
set -eu
umask 077
own=/var/lib/phalanx/security
given=/var/lib/phalanx/given
bus=/var/lib/phalanx/bus

if [ ! -e "$own/security.json" ]; then
    phalanx security init "$own" --cluster "$PHALANX_CLUSTER" --host nats \
        --server-dir /var/lib/phalanx/identity --store "$bus/jetstream" \
        --node "$PHALANX_NODE_ID" --node node-a --node node-b --node node-c --node node-d --node node-late
fi

# Another name for this machine than last time.
if [ ! -e "$own/identities/host-$PHALANX_NODE_ID.nk" ]; then phalanx security node "$own" "$PHALANX_NODE_ID"; fi

command=${1:-}
case "$command" in
'') ;;
show)
    case "$2" in
    ca.crt) exec cat "$own/ca.crt" ;;
    *.nk) exec cat "$own/identities/${2##*/}" ;;
    *)
        echo "identities: show ca.crt or NAME.nk" >&2
        exit 2
        ;;
    esac
    ;;
*)
    shift
    phalanx security "$command" "$own" "$@"
    ;;
esac

# Whole or not at all: somebody may be reading it.
hand() {
    cp "$own/$2" "$given/$1/.new"
    chmod "$3" "$given/$1/.new"
    mv "$given/$1/.new" "$given/$1/${2##*/}"
}

for file in nats.conf authorization.conf server.crt server.key; do hand server "$file" 0400; done
for service in health-ingest fault-classifier recovery-planner cli; do
    hand "$service" ca.crt 0444
    hand "$service" "identities/$service.nk" 0400
done
# The host role runs as root without the right to read what belongs to others; it is in our group.
hand host ca.crt 0444
hand host command-keys 0444
hand host "identities/host-$PHALANX_NODE_ID.nk" 0440
hand demo ca.crt 0444
hand demo command-keys 0444
hand demo identities/cli.nk 0400
for node in node-a node-b node-c node-d node-late; do
    hand demo "identities/host-$node.nk" 0400
    hand demo "identities/launcher-$node.nk" 0400
done
