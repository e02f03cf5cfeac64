#!/bin/sh
# Replaces vppctl in a test: accepts lines in an order that VPP would accept, and refuses others.
[ "$1 $2" = "-s /run/vpp/cli.sock" ] && cd /run/vpp && [ -e pid ] || exit 1
shift 2
# shellcheck disable=SC2048,SC2086 # words of one argument
set -- $*
case "$*" in
"show version") echo "a stand-in for VPP" ;;
"show interface") for port in 0 1; do [ -e up ] && echo "host-eth$port 1 up 9000/0/0/0"; done ;;
"create host-interface v2 name eth"?" hw-addr "*" rx-size 2048 rx-per-block 19200 tx-size 2048")
	touch "host-$5"
	echo "host-$5"
	;;
"set interface rx-mode host-eth"?" polling")
	[ -e "$4" ] || echo "unknown input \`$4'"
	[ "$4" = host-eth1 ] && kill -USR2 "$(cat pid)"
	;;
exec*) [ -e host-eth1 ] && touch up ;;
"set acl-plugin acl permit")
	[ -e up ] && kill -USR1 "$(cat pid)" && echo "ACL index:0"
	;;
*) echo "unknown input \`$*'" ;;
esac
exit 0
