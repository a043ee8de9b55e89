# I2, I3, issue 5.6: who a device is by its certificate or its pre-shared key; expired and revoked ones, over reloads, with
# those who are connected.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use POSIX ();
use FleetlogTest;
use FleetlogTest::Pki;

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $s = FleetlogTest->new('identity', no_start => 1);
my $dir = $s->node->basedir . '/pki';
my $pki = FleetlogTest::Pki->new($dir);
my $foreign = FleetlogTest::Pki->new("$dir.foreign", 'somebody else');
my $year = POSIX::strftime('%y', gmtime) + 0;
$pki->issue('server', subject => '/CN=localhost', san => 'DNS:localhost');
$pki->issue('d1', subject => '/O=acme/CN=device one', san => 'DNS:d1.acme.example,URI:urn:dev:d1');
$pki->issue('d2', subject => '/CN=device two');
$pki->issue('twice', subject => '/CN=device one/CN=device two');
$pki->issue('nobody', subject => '/CN=nobody');
$pki->issue('expired', subject => '/CN=expired', start => sprintf('%02d0101000000Z', $year - 2), end => sprintf('%02d0101000000Z', $year - 1));
$foreign->issue('d1', subject => '/CN=device one');
my %conf = ('fleetlog.mqtts_listen' => "127.0.0.1:$port", 'fleetlog.tls_cert_file' => "$dir/server.crt", 'fleetlog.tls_key_file' => "$dir/server.key",
    'fleetlog.tls_ca_file' => "$dir/ca.crt", 'fleetlog.tls_crl_file' => "$dir/ca.crl", 'fleetlog.tls_psk' => 'on');
$s->set_conf(%conf);
$s->start_and_install;
my ($key1, $key2) = ('00112233445566778899aabbccddeeff', 'ff' x 32);
$s->sql(<<SQL);
SELECT fleetlog.create_stream('telemetry');
SELECT fleetlog.create_tenant('acme', 'acme/');
SELECT fleetlog.mount('acme/', 'telemetry');
SELECT fleetlog.create_device('d1', 'acme', certificate_subject => 'device one');
SELECT fleetlog.create_device('d2', 'acme', certificate_subject => 'device two');
SELECT fleetlog.create_device('p1', 'acme', psk => '\\x$key1');
SELECT fleetlog.create_device('p2', 'acme', psk => '\\x$key2');
SELECT fleetlog.create_device('gate', 'acme', password => 'pw-gate');
SELECT fleetlog.create_device('expired', 'acme', certificate_subject => 'expired');
SQL
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE protocol = 'mqtts' AND state = 'listening'", '2', 'the listeners');

my @where = ('-h', 'localhost', '-p', $port);
my $n = 0;

# Publishes once; returns '' and the device that the record bears, or what the client says.
sub publish
{
    my ($topic, @args) = @_;
    my ($err, $text) = ('', 'm' . ++$n);
    IPC::Run::run([ 'mosquitto_pub', @where, '-q', 1, '-t', $topic, '-m', $text, @args ], '2>', \$err, '>', \my $out, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    my $device = $s->sql("SELECT device FROM telemetry WHERE fleetlog.text(payload) = '$text'");
    return $device ne '' ? $device : "refused: $err" =~ s/\n/ /gr;
}
sub cert { my ($name, $folder) = @_; $folder //= $dir; return ('--cafile', "$dir/ca.crt", '--cert', "$folder/$name.crt", '--key', "$folder/$name.key"); }
sub psk { my ($identity, $key) = @_; return ('--psk-identity', $identity, '--psk', $key); }
sub s_client
{
    my (@args) = @_;
    my ($out, $err) = ('', '');
    my ($in) = FleetlogTest::input("\x10\x00");
    IPC::Run::run([ 'openssl', 's_client', '-connect', "127.0.0.1:$port", @args ], '<', $in, '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    return $out . $err;
}
my $since = 0;
sub logged { my ($pattern) = @_; return $s->node->log_contains($pattern, $since); }
sub wait_logged { my ($pattern, $what) = @_; FleetlogTest::wait_until(sub { logged($pattern) }, $what); pass($what); return; }

# ---- certificates ----

for my $version ('tlsv1.2', 'tlsv1.3')
{
    is(publish('acme/d1/t', cert('d1'), '--tls-version', $version), 'd1', "$version: a certificate says which device it is");
}
is(publish('acme/d1/t', cert('d1'), '-V', 'mqttv5'), 'd1', 'MQTT 5 as well');
is(publish('acme/d1/t', cert('d1'), '-u', 'acme/d1'), 'd1', 'a user name that agrees is fine');
like(publish('acme/d1/t', cert('d1'), '-u', 'acme/d2'), qr/refused/, 'one that does not is refused');
like(publish('acme/d2/t', cert('d1')), qr/refused/, "another device's topic is refused");
is(publish('acme/gate/t', cert('d1'), '-u', 'acme/gate', '-P', 'pw-gate'), 'gate', 'a password goes before');
like(publish('acme/d1/t', cert('nobody')), qr/refused/, 'a certificate that no device has is refused');
wait_logged(qr/no device has its certificate; fleetlog\.set_certificate/, 'the log names the remedy');
like(publish('acme/d1/t', cert('twice')), qr/refused/, 'a subject with two common names is nobody');
wait_logged(qr/more than one common name/, 'and the log says why');
like(publish('acme/d1/t', '--cafile', "$dir/ca.crt"), qr/refused/, 'without certificate, user name and password: refused');

# Alerts that tell the device why.  With TLS 1.3 they come after the handshake as the client sees it.
like(s_client('-tls1_2', '-cert', "$dir/expired.crt", '-key', "$dir/expired.key"), qr/alert certificate expired/, 'expired: the alert says so');
wait_logged(qr/certificate of "CN=expired" from .* was refused: certificate has expired\n.*HINT:.*new certificate/, 'the log names it, with the remedy');
my $since_then = time;
my $lines = () = PostgreSQL::Test::Utils::slurp_file($s->node->logfile) =~ /certificate of "CN=expired"/g;
like(s_client('-tls1_2', '-cert', "$dir/expired.crt", '-key', "$dir/expired.key"), qr/alert certificate expired/, '... again') for 1 .. 5;
my $more = () = PostgreSQL::Test::Utils::slurp_file($s->node->logfile) =~ /certificate of "CN=expired"/g;
cmp_ok($more, '<=', 2 * (1 + int((time - $since_then + 30) / 60)), 'a device that tries again and again is logged once a minute by each door');
like(s_client('-tls1_2', '-cert', "$dir.foreign/d1.crt", '-key', "$dir.foreign/d1.key"), qr/alert unknown ca/, 'a certificate of another CA: unknown CA');

# The rule.
my %names = (dns => 'd1.acme.example', uri => 'urn:dev:d1', subject => 'CN=device one,O=acme');
for my $rule (sort keys %names)
{
    $s->sql("SELECT fleetlog.set_certificate('d1', '$names{$rule}')");
    $s->set_conf(%conf, 'fleetlog.tls_identity' => $rule);
    FleetlogTest::wait_until(sub { publish('acme/d1/t', cert('d1')) eq 'd1' && publish('acme/d1/t', cert('d1')) eq 'd1' }, "rule $rule");
    pass("rule $rule: $names{$rule}");
}
$s->sql("SELECT fleetlog.set_certificate('d1', 'device one')");
$s->set_conf(%conf, 'fleetlog.tls_require_certificate' => 'on');
FleetlogTest::wait_until(sub { s_client('-tls1_2') =~ /alert handshake failure/ }, 'clients without certificate to be refused');
pass('tls_require_certificate');
$s->set_conf(%conf);
FleetlogTest::wait_until(sub { s_client('-tls1_2') !~ /alert/ && s_client('-tls1_2') !~ /alert/ }, 'the old setting');

# ---- those who are connected ----

sub subscriber
{
    my ($id, $topic, @args) = @_;
    my ($out, $err) = ('', '');
    my $h = IPC::Run::start([ 'mosquitto_sub', @where, '-V', 'mqttv5', '-i', $id, '-t', $topic, @args ], '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    $s->wait_for("SELECT count(*) FROM fleetlog.stat_connection WHERE client_id = '$id' AND subscriptions > 0", '1', "$id");
    return $h;
}
sub is_connected { my ($id) = @_; return $s->sql("SELECT count(*) FROM fleetlog.stat_connection WHERE client_id = '$id'"); }

my @subs = map { subscriber("s$_", "acme/d$_/#", cert("d$_")) } 1, 2;
my $opened = $s->sql("SELECT string_agg(conn_id::text, ',' ORDER BY conn_id) FROM fleetlog.stat_connection");
my $session = "$dir/session";
s_client('-cert', "$dir/d2.crt", '-key', "$dir/d2.key", '-tls1_2', '-sess_out', $session);
like(s_client('-tls1_2', '-sess_in', $session), qr/^Reused, /m, 'a session of a device can be resumed');
$pki->revoke('d2');
$since = -s $s->node->logfile;
$s->node->reload;
$s->wait_for("SELECT count(*) FROM fleetlog.stat_connection WHERE conn_id = split_part('$opened', ',', 2)::bigint", '0', 'the connection of a certificate that is on the new list to end');
wait_logged(qr/client "s2" of device "acme\/d2" is disconnected: its certificate was revoked/, 'the log says why');
is($s->sql("SELECT count(*) FROM fleetlog.stat_connection WHERE conn_id = split_part('$opened', ',', 1)::bigint"), '1', "the other's stays");
like(s_client('-tls1_2', '-cert', "$dir/d2.crt", '-key', "$dir/d2.key"), qr/alert certificate revoked/, 'revoked: the alert says so');
unlike(s_client('-tls1_2', '-sess_in', $session), qr/^Reused, /m, 'nor is its session resumed');
like(publish('acme/d2/t', cert('d2')), qr/refused/, 'it cannot come back');
$subs[1]->kill_kill;

$s->sql("SELECT fleetlog.revoke_device('d1', 'stolen')");
$s->wait_for("SELECT count(*) FROM fleetlog.stat_connection WHERE conn_id = split_part('$opened', ',', 1)::bigint", '0', 'a revoked device to be disconnected');
$subs[0]->kill_kill;
like(publish('acme/d1/t', cert('d1')), qr/refused/, 'a revoked device has a valid certificate in vain');
$s->set_conf(%conf, 'fleetlog.allow_anonymous' => 'on');
$s->wait_for('SHOW fleetlog.allow_anonymous', 'on', 'anonymous login');
$since = -s $s->node->logfile;
like(publish('acme/d1/t', cert('d1')), qr/refused/, 'also where anonymous clients are let in');
$s->set_conf(%conf);

# A connection ends with its certificate: a day is left, and the clock moves.
$s->sql("SELECT fleetlog.create_device('d3', 'acme', certificate_subject => 'device three')");
$pki->issue('d3', subject => '/CN=device three', end => POSIX::strftime('%y%m%d%H%M%SZ', gmtime(time + 86400)));
my $three = subscriber('s3', 'acme/d3/#', cert('d3'));
$since = -s $s->node->logfile;
$s->set_conf(%conf, 'fleetlog.clock_offset' => (86400 + 120) * 1000);
wait_logged(qr/client "s3" of device "acme\/d3" is disconnected: its certificate has expired/, 'a connection ends when its certificate does');
$three->kill_kill;
$s->set_conf(%conf);

# ---- pre-shared keys ----

# The same by TLS 1.3: newer clients of Mosquitto refuse to combine it with a key, openssl does not.
sub publish_13
{
    my ($topic, $identity, $key) = @_;
    my ($out, $err, $text) = ('', '', 'm' . ++$n);
    my ($in, $open) = FleetlogTest::input(FleetlogTest::Mqtt::connect_packet({ version => 4 }, client_id => "thirteen$n")
        . FleetlogTest::Mqtt::publish_packet({ version => 4 }, $topic, $text, qos => 1, pid => 1));
    my $h = IPC::Run::start([ 'openssl', 's_client', '-connect', "127.0.0.1:$port", '-tls1_3', '-psk_identity', $identity, '-psk', $key, '-quiet', '-no_ign_eof' ],
        '<', $in, '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    FleetlogTest::wait_until(sub { $h->pump_nb; $out =~ /^\x20\x02\x00\x00\x40\x02\x00\x01/ || !$h->pumpable }, 'an answer');
    $h->kill_kill;
    my $device = $s->sql("SELECT device FROM telemetry WHERE fleetlog.text(payload) = '$text'");
    return $device ne '' ? $device : "refused: $err" =~ s/\n/ /gr;
}

my @ways = (
    [ 'TLS 1.2', sub { my ($topic, @who) = @_; return publish($topic, psk(@who), '--tls-version', 'tlsv1.2') } ],
    [ 'TLS 1.3', \&publish_13 ]);
for my $way (@ways)
{
    my ($version, $try) = @$way;
    is($try->('acme/p1/t', 'acme/p1', $key1), 'p1', "$version: a pre-shared key says which device it is");
    is($try->('acme/p2/t', 'p2', $key2), 'p2', "$version: the bare id, where it is the only one");
    like($try->('acme/p1/t', 'acme/p1', $key2), qr/refused/, "$version: another key is refused");
    like($try->('acme/p1/t', 'acme/nobody', $key1), qr/refused/, "$version: an unknown identity is refused");
}
like(publish('acme/p1/t', psk('acme/p1', $key1), '-u', 'acme/p2'), qr/refused/, "a user name that is another device's is refused");
like(publish('acme/d2/t', psk('acme/d2', $key1)), qr/refused/, 'a device without key is refused');
like(s_client('-tls1_2', '-psk_identity', 'acme/p1', '-psk', $key1, '-cipher', 'PSK'), qr/Cipher is \S*PSK/, 'TLS 1.2 with a cipher of pre-shared keys');

# TLS 1.3: a valid ticket and the name of a device whose key the client has not: it is not that device.
$session = "$dir/session13";
my ($out, $err) = ('', '');
my ($login, $open) = FleetlogTest::input(FleetlogTest::Mqtt::connect_packet({ version => 4 }, client_id => 'thief'));
my ($gate, $open_too) = FleetlogTest::input(FleetlogTest::Mqtt::connect_packet({ version => 4 }, client_id => 'gate', user => 'acme/gate', password => 'pw-gate'));
my $h = IPC::Run::start([ 'openssl', 's_client', '-connect', "127.0.0.1:$port", '-tls1_3', '-ciphersuites', 'TLS_AES_256_GCM_SHA384', '-sess_out', $session, '-quiet', '-no_ign_eof' ],
    '<', $gate, '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
FleetlogTest::wait_until(sub { $h->pump_nb; -s $session && length $out }, 'a ticket of another device');
$h->kill_kill;
($out, $err) = ('', '');
$h = IPC::Run::start([ 'openssl', 's_client', '-connect', "127.0.0.1:$port", '-tls1_3', '-ciphersuites', 'TLS_AES_256_GCM_SHA384', '-sess_in', $session, '-psk_identity', 'acme/p1', '-psk', $key2, '-quiet', '-no_ign_eof' ],
    '<', $login, '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
FleetlogTest::wait_until(sub { $h->pump_nb; length $out || !$h->pumpable }, 'the answer to the thief');
isnt(substr($out, 0, 4), "\x20\x02\x00\x00", 'a ticket of one device and the name of another make neither');
$h->kill_kill;

my $psub = subscriber('sp', 'acme/p1/#', psk('acme/p1', $key1));
is(publish('acme/p1/t', psk('acme/p1', $key1)), 'p1', 'with a subscriber');
my $new = $s->sql("SELECT encode(fleetlog.set_psk('p1'), 'hex')");
$s->wait_for("SELECT count(*) FROM fleetlog.stat_connection WHERE client_id = 'sp'", '0', 'connections of the old key to end');
$psub->kill_kill;
like(publish('acme/p1/t', psk('acme/p1', $key1)), qr/refused/, 'the old key is refused');
is(publish('acme/p1/t', psk('acme/p1', $new)), 'p1', 'the new one is taken');

# No secret in the log; no certificate is needed for keys.
$s->set_conf('fleetlog.mqtts_listen' => "127.0.0.1:$port", 'fleetlog.tls_psk' => 'on');
$s->node->restart;
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE protocol = 'mqtts' AND state = 'listening'", '2', 'listeners without certificate');
is(publish('acme/p2/t', psk('acme/p2', $key2)), 'p2', 'pre-shared keys work without a certificate of the server');
unlike(PostgreSQL::Test::Utils::slurp_file($s->node->logfile), qr/$new|PRIVATE KEY/, 'the log has no secret');
is($s->crashes, '', 'no crash');
done_testing();
