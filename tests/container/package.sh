# The commands of package.py: they run as root in a container, with old.deb and new.deb in /packages.
set -euo pipefail
step() { echo "  $*"; }
fail() { echo "FAILED: $*"; exit 1; }
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq >/dev/null
apt-get install -y -qq --no-install-recommends redis-tools >/dev/null 2>&1
install_package() { apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold "$1" >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; exit 1; }; }
mode() { stat -c '%a %U:%G' "$1"; }

step "installs with its libraries, a user, private data and a configuration that only root changes"
install_package /packages/old.deb
id ebbtide >/dev/null
[[ $(mode /etc/ebbtide) == '750 root:ebbtide' ]] || fail "$(mode /etc/ebbtide)"
[[ $(mode /etc/ebbtide/ebbtide.yaml) == '640 root:ebbtide' ]] || fail "$(mode /etc/ebbtide/ebbtide.yaml)"
[[ $(mode /var/lib/ebbtide) == '700 ebbtide:ebbtide' ]] || fail "$(mode /var/lib/ebbtide)"
[[ $(ls /etc/systemd/system/multi-user.target.wants) == *ebbtide.service* ]] || fail "the service is not enabled"
ebbtide-inspect --help >/dev/null
[[ -r /usr/share/ebbtide/users.acl ]] || fail "the example of users is missing"

read -r program arguments <<<"$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/ebbtide.service)"
start() {
  setpriv --reuid=ebbtide --regid=ebbtide --clear-groups "$program" $arguments --port 16379 --set metrics.port=16380 "$@" >/tmp/server.log 2>&1 &
  server=$!
  for _ in {1..100}; do
    redis-cli -p 16379 ping 2>/dev/null | grep -q PONG && return
    sleep 0.1
  done
  cat /tmp/server.log
  fail "the server does not start"
}
stop() { kill -TERM "$server" && wait "$server"; }

step "its server runs as that user with the unit's command line, and keeps data"
start
[[ $(redis-cli -p 16379 set before upgrade) == OK ]]
stop

step "an upgrade keeps data and a changed configuration"
echo '# my change' >>/etc/ebbtide/ebbtide.yaml
install_package /packages/new.deb
[[ $(dpkg-query -W -f='${Version}' ebbtide) == *+test ]] || fail "not upgraded"
grep -q '^# my change$' /etc/ebbtide/ebbtide.yaml || fail "the change of the configuration is lost"
[[ $(mode /etc/ebbtide/ebbtide.yaml) == '640 root:ebbtide' ]] || fail "$(mode /etc/ebbtide/ebbtide.yaml)"
start
[[ $(redis-cli -p 16379 get before) == upgrade ]] || fail "data is lost"
stop

step "the data of every released version opens after the upgrade"
for release in /packages/release-*.tar.gz; do
  mv /var/lib/ebbtide/data /var/lib/ebbtide/own
  install -d -m 700 -o ebbtide -g ebbtide /var/lib/ebbtide/data
  tar -xzf "$release" -C /var/lib/ebbtide/data
  chown -R ebbtide:ebbtide /var/lib/ebbtide/data
  start --set storage.accept_clock=true
  (($(redis-cli -p 16379 dbsize) > 0)) || fail "$release has no keys"
  stop
  rm -rf /var/lib/ebbtide/data
  mv /var/lib/ebbtide/own /var/lib/ebbtide/data
done

step "removal keeps configuration and data, and the package can come back"
apt-get remove -y -qq ebbtide >/dev/null 2>&1
[[ ! -e /usr/bin/ebbtide-server && -e /etc/ebbtide/ebbtide.yaml && -d /var/lib/ebbtide/data ]] || fail "removal"
install_package /packages/new.deb
start
[[ $(redis-cli -p 16379 get before) == upgrade ]] || fail "data is lost"
stop

step "a purge removes configuration, data and backups"
apt-get purge -y -qq ebbtide >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; fail purge; }
for path in /etc/ebbtide /var/lib/ebbtide /usr/share/ebbtide /usr/share/doc/ebbtide /etc/systemd/system/multi-user.target.wants/ebbtide.service; do
  [[ ! -e $path && ! -L $path ]] || fail "$path is still there"
done
