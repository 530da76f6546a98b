#!/bin/bash
# Health check: does this container answer 200? answers PORT PATH
exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
printf 'GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' "$2" >&3
read -r _ status _ <&3
[[ $status == 200 ]]
