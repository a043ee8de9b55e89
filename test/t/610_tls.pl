# Issue 5.6, M2, I3: TLS listeners: versions, names, tickets that every front door takes, reload that drops nobody, faults
# that are told with their remedy, and what an idle connection costs.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use FleetlogTest;
use FleetlogTest::Pki;

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $s = FleetlogTest->new('tls', conf => "fleetlog.workers = 3\nfleetlog.connect_timeout = 10min\n");
$s->fleet(devices => 2);
my $dir = $s->node->basedir . '/pki';
my $pki = FleetlogTest::Pki->new($dir);
$pki->issue('server', subject => '/CN=localhost', san => 'DNS:localhost,IP:127.0.0.1');
$pki->issue('other', subject => '/CN=other.example', san => 'DNS:other.example');
my %conf = ('fleetlog.mqtts_listen' => "127.0.0.1:$port", 'fleetlog.tls_cert_file' => "$dir/server.crt, $dir/other.crt",
    'fleetlog.tls_key_file' => "$dir/server.key, $dir/other.key");
my @user = ('-u', 'acme/d1', '-P', 'pw-d1');
my @where = ('-h', 'localhost', '-p', $port, '--cafile', "$dir/ca.crt");

sub run_program
{
    my ($in, @command) = @_;
    my ($out, $err) = ('', '');
    my $ok = IPC::Run::run(\@command, '<', \$in, '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    return ($ok, $out, $err);
}
sub s_client
{
    my (@args) = @_;
    my ($out, $err) = ('', '');
    my ($in) = FleetlogTest::input("\x10\x00");
    IPC::Run::run([ 'openssl', 's_client', '-connect', "127.0.0.1:$port", '-CAfile', "$dir/ca.crt", @args ], '<', $in, '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    return $out . $err;
}
sub failed_handshakes { return $s->sql("SELECT sum(failed_handshakes) FROM fleetlog.stat_listener WHERE protocol = 'mqtts'"); }
sub logged { my ($pattern, $from) = @_; return $s->node->log_contains($pattern, $from // 0); }

# Without a certificate the listener stays closed and says so; the others are served.
$s->set_conf('fleetlog.mqtts_listen' => "127.0.0.1:$port");
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE protocol = 'mqtts' AND state LIKE 'no usable certificate%'", '3', 'the view says what is missing');
ok($s->wait_for_log(qr/TLS has no certificate.*\n.*HINT:.*tls_cert_file/), 'and so does the log, with the remedy');
is($s->device('d1')->publish_acked('acme/d1/t', 'plain'), 0, 'plain connections are served meanwhile');

$s->set_conf(%conf);
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE protocol = 'mqtts' AND state = 'listening'", '3', 'a reload opens the listener');

# Clients, both ways.
my ($ok, $out, $err) = run_program('', 'mosquitto_pub', @where, @user, '-q', 1, '-t', 'acme/d1/t', '-m', 'hello', '-V', 'mqttv5');
ok($ok, 'mosquitto_pub over TLS') or diag($err);
is($s->sql("SELECT device FROM telemetry WHERE fleetlog.text(payload) = 'hello'"), 'd1', 'its message is in the stream');
for my $version ('--tls-version tlsv1.2', '--tls-version tlsv1.3')
{
    my ($got, $e) = ('', '');
    my $big = join '', map { chr(33 + $_ % 90) } 1 .. 500_000;
    my $sub = IPC::Run::start([ 'mosquitto_sub', @where, @user, split(/ /, $version), '-i', 'sub', '-q', 1, '-t', 'acme/d1/#', '-C', 201 ],
        '>', \$got, '2>', \$e, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    $s->wait_for("SELECT count(*) FROM fleetlog.stat_connection WHERE client_id = 'sub' AND subscriptions > 0", '1', "$version subscribed");
    # The client's option names the oldest version that it takes, so 1.3 may come of either.
    like($s->sql("SELECT concat_ws(' ', listener, tls_version, tls_cipher) FROM fleetlog.stat_connection WHERE client_id = 'sub'"), qr/^mqtts TLSv1\.[23] [A-Z]+[-_]\S+$/, "$version: stat_connection tells the version and the cipher");
    my $lines = join '', map { "line $_\n" } 1 .. 200;
    ($ok, $out, $err) = run_program($big, 'mosquitto_pub', @where, @user, split(/ /, $version), '-q', 1, '-t', 'acme/d1/big', '-s');
    ok($ok, "$version: half a megabyte in") or diag($err);
    ($ok, $out, $err) = run_program($lines, 'mosquitto_pub', @where, @user, split(/ /, $version), '-q', 1, '-t', 'acme/d1/lines', '-l');
    ok($ok, "$version: many messages in") or diag($err);
    $sub->finish;
    is($got, "$big\n$lines", "$version: all of it out, in order");
}

# Versions.
like(s_client('-tls1_2'), qr/Protocol *: TLSv1\.2/, 'TLS 1.2');
like(s_client('-tls1_3'), qr/New, TLSv1\.3/, 'TLS 1.3');
like(s_client('-tls1_1', '-cipher', 'ALL:@SECLEVEL=0'), qr/alert protocol version|no protocols available/, 'TLS 1.1 is refused');
$s->set_conf(%conf, 'fleetlog.tls_min_version' => 'TLSv1.3');
FleetlogTest::wait_until(sub { s_client('-tls1_2') =~ /alert protocol version/ }, 'TLS 1.2 to be refused where 1.3 is asked for');
$s->set_conf(%conf);
FleetlogTest::wait_until(sub { s_client('-tls1_2') =~ /Protocol *: TLSv1\.2/ }, 'the old setting');

# Names.
like(s_client('-servername', 'other.example'), qr/subject=CN ?= ?other\.example/, 'SNI: the certificate of the name that is asked for');
like(s_client('-servername', 'localhost'), qr/subject=CN ?= ?localhost/, '... of the other name');
like(s_client('-servername', 'nobody.example'), qr/subject=CN ?= ?localhost/, '... and the first for a name that none has');
like(s_client('-alpn', 'x,mqtt'), qr/ALPN protocol: mqtt/, 'ALPN: mqtt where it is offered');
like(s_client('-alpn', 'x'), qr/No ALPN negotiated/, '... and none where it is not');

# Tickets: the three doors take each other's.
for my $version ('-tls1_2', '-tls1_3')
{
    my $session = "$dir/session$version";
    my $before = $s->sql("SELECT sum(resumed_handshakes) FROM fleetlog.stat_listener");
    # With TLS 1.3 the ticket comes after the handshake, so the client waits for the answer to its CONNECT.
    my ($h, $o) = ('', '');
    my $c = $s->raw;
    my $in = $c->connect_packet(client_id => 'ticket', user => 'acme/d1', password => 'pw-d1');
    $c->close;
    $h = IPC::Run::start([ 'openssl', 's_client', '-connect', "127.0.0.1:$port", $version, '-sess_out', $session, '-quiet', '-no_ign_eof' ], '<', \$in, '>', \$o, '2>', \my $e, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    FleetlogTest::wait_until(sub { $h->pump_nb; -s $session && length $o }, "$version: the ticket");
    $h->kill_kill;
    my $reused = grep { s_client($version, '-sess_in', $session) =~ /^Reused, /m } 1 .. 12;
    is($reused, 12, "$version: twelve connections resume the session, whichever door they meet");
    $s->wait_for("SELECT sum(resumed_handshakes) - $before FROM fleetlog.stat_listener", 12, "$version: these to be counted");
    cmp_ok($s->sql("SELECT count(*) FROM fleetlog.stat_listener WHERE resumed_handshakes > 0"), '>', 1, "$version: more than one door took it");
}

# Faults.
my $failed = failed_handshakes();
my $plain = FleetlogTest::Mqtt->open($port);
$plain->send_raw($plain->connect_packet(client_id => 'x'));
FleetlogTest::wait_until(sub { $plain->fill; $plain->{closed} }, 'a plain client to be closed');
FleetlogTest::wait_until(sub { logged(qr/does not speak TLS/) }, 'the remedy in the log');
FleetlogTest::wait_until(sub { failed_handshakes() - $failed == 1 }, 'a handshake that fails to be counted');
my @silent = map { FleetlogTest::Mqtt->open($port) } 1 .. 20;
like(s_client('-tls1_3'), qr/New, TLSv1\.3/, 'twenty that say nothing hold nobody up');
$_->close for @silent;

# Reload: what cannot be used changes nothing, and nobody is dropped by what can.
my ($got, $e) = ('', '');
my $sub = IPC::Run::start([ 'mosquitto_sub', @where, @user, '-i', 'stays', '-t', 'acme/d1/stays', '-C', 1 ], '>', \$got, '2>', \$e, IPC::Run::timeout($FleetlogTest::TIMEOUT));
$s->wait_for("SELECT count(*) FROM fleetlog.stat_connection WHERE client_id = 'stays' AND subscriptions > 0", '1', 'a subscriber');
my $since = -s $s->node->logfile;
$pki->issue('loose');
chmod 0644, "$dir/loose.key";
$s->set_conf(%conf, 'fleetlog.tls_cert_file' => "$dir/loose.crt", 'fleetlog.tls_key_file' => "$dir/loose.key");
FleetlogTest::wait_until(sub { logged(qr/is not private\n.*HINT:.*mode 0600/, $since) && logged(qr/goes on with the certificates that it had/, $since) }, 'a key that all can read to be refused');
$since = -s $s->node->logfile;
$s->set_conf(%conf, 'fleetlog.tls_cert_file' => "$dir/nothing.crt", 'fleetlog.tls_key_file' => "$dir/server.key");
FleetlogTest::wait_until(sub { logged(qr/could not load certificate/, $since) }, 'a missing file to be told');
$since = -s $s->node->logfile;
$s->set_conf(%conf, 'fleetlog.tls_cert_file' => "$dir/server.crt", 'fleetlog.tls_key_file' => "$dir/other.key");
FleetlogTest::wait_until(sub { logged(qr/could not load private key/, $since) }, "another certificate's key to be told");
like(s_client(), qr/subject=CN ?= ?localhost/, 'meanwhile the old certificate is in use');
$s->set_conf(%conf, 'fleetlog.tls_cert_file' => "$dir/other.crt", 'fleetlog.tls_key_file' => "$dir/other.key");
FleetlogTest::wait_until(sub { s_client() =~ /subject=CN ?= ?other\.example/ }, 'the new certificate');
$s->set_conf(%conf, 'fleetlog.max_handshakes_per_turn' => 1);
FleetlogTest::wait_until(sub { s_client() =~ /subject=CN ?= ?localhost/ }, 'the first one again');
is($s->device('d1')->publish_acked('acme/d1/stays', 'still here'), 0, 'a message after five reloads');
$sub->finish;
is($got, "still here\n", 'reaches who was connected before them');

# Many at once, one step a turn: all get in.  What each costs when idle is counted from the doors' memory.
my $script = <<'PY';
import socket, ssl, sys, struct
port, n, ca = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
ctx = ssl.create_default_context(cafile=ca)
# Python 3.13 wants a key usage in a CA's certificate, which ours has not.
ctx.verify_flags &= ~ssl.VERIFY_X509_STRICT
def connect(i):
    ident = b'idle%d' % i
    body = b'\x00\x04MQTT\x04\xc2\x00\x00' + struct.pack('>H', len(ident)) + ident
    for t in (b'acme/d2', b'pw-d2'):
        body += struct.pack('>H', len(t)) + t
    return b'\x10' + bytes([len(body)]) + body
socks = []
for i in range(n):
    s = socket.create_connection(('127.0.0.1', port)); s.setblocking(False)
    socks.append(ctx.wrap_socket(s, server_hostname='localhost', do_handshake_on_connect=False))
left = set(range(n))
import select
while left:
    for i in list(left):
        try:
            socks[i].do_handshake(); left.discard(i)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
for i, s in enumerate(socks):
    s.setblocking(True); s.sendall(connect(i))
for s in socks:
    assert s.recv(4) == b'\x20\x02\x00\x00'
print('ready', flush=True)
sys.stdin.readline()
PY
sub memory
{
    my $sum = 0;
    for my $pid (split /\n/, $s->sql("SELECT DISTINCT pid FROM fleetlog.stat_listener"))
    {
        my $text = PostgreSQL::Test::Utils::slurp_file("/proc/$pid/smaps_rollup");
        $sum += 1024 * $1 if $text =~ /^Anonymous: +(\d+) kB/m;
    }
    return $sum;
}
sub crowd
{
    my ($n, $enough) = @_;
    my ($in, $out, $err) = ('', '', '');
    my $h = IPC::Run::start([ '/usr/bin/python3', '-c', $script, $port, $n, "$dir/ca.crt" ], '<', \$in, '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    FleetlogTest::wait_until(sub { $h->pump_nb; die $err if $err =~ /Error/; $out =~ /ready/ }, "$n clients at once");
    # The doors give back what the handshakes took, a moment after the last of them.
    my ($memory, $end) = (memory(), time + 8);
    while (time < $end || ($enough && $memory > $enough && time < $end + $FleetlogTest::TIMEOUT))
    {
        my $now = memory();
        $memory = $now if $now < $memory;
        select undef, undef, undef, 0.2;
    }
    $in = "\n";
    $h->finish;
    return $memory;
}
my $few = crowd(60);
# On a slow machine the moment may be longer.
my $many = crowd(560, $few + 500 * 32_000 - 1);
my $each = int(($many - $few) / 500);
note("an idle TLS connection costs $each bytes of the doors' memory");
cmp_ok($few, '>', 1_000_000, 'the doors have memory');
cmp_ok($each, '>', 1000, 'an idle TLS connection costs something');
cmp_ok($each, '<', 32_000, 'and less than the buffers that it has no use for');
$s->wait_for("SELECT count(*) FROM fleetlog.stat_connection", '0', 'all to be gone');
$s->wait_for("SELECT sum(open) FROM fleetlog.stat_listener", '0', 'and no listener to count one');
is($s->crashes, '', 'no crash');
done_testing();
