# Issue 5.6, M2: MQTT over WebSocket, plain and over TLS: paho, frames however they are cut, refusals by HTTP.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use MIME::Base64 ();
use Socket qw(SOL_SOCKET SO_ERROR);
use FleetlogTest;
use FleetlogTest::Pki;
use FleetlogTest::WebSocket;

my ($ws, $wss) = map { PostgreSQL::Test::Cluster::get_free_port() } 1 .. 2;
my $s = FleetlogTest->new('ws', no_start => 1);
my $dir = $s->node->basedir . '/pki';
my $pki = FleetlogTest::Pki->new($dir);
$pki->issue('server', subject => '/CN=localhost', san => 'DNS:localhost,IP:127.0.0.1');
my %conf = ('fleetlog.ws_listen' => "127.0.0.1:$ws", 'fleetlog.wss_listen' => "127.0.0.1:$wss", 'fleetlog.tls_cert_file' => "$dir/server.crt", 'fleetlog.tls_key_file' => "$dir/server.key");
$s->set_conf(%conf);
$s->start_and_install;
$s->fleet(devices => 2);

# ---- refusals, as curl sees them ----

sub curl
{
    my (@args) = @_;
    my ($out, $err) = ('', '');
    my $url = $args[-1] =~ m{^https?://} ? pop @args : "http://127.0.0.1:$ws/mqtt";
    IPC::Run::run([ 'curl', '-s', '-m', $FleetlogTest::TIMEOUT, '-w', '\n%{http_code}', '--cacert', "$dir/ca.crt", @args, $url ], '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    return $out;
}
my @upgrade = map { ('-H', $_) } 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==';
my @mqtt = (@upgrade, '-H', 'Sec-WebSocket-Protocol: mqtt');

like(curl(), qr/only MQTT over WebSocket.*\n426$/s, 'a browser that looks is told what is served here');
like(curl("https://localhost:$wss/mqtt"), qr/\n426$/, 'also over TLS');
like(curl(@mqtt, "http://127.0.0.1:$ws/"), qr/ws_path.*\n404$/s, 'another path');
like(curl(@upgrade), qr/must list mqtt.*\n400$/s, 'no subprotocol mqtt');
like(curl(@mqtt, '-H', 'Origin: https://evil.example'), qr/ws_origins.*\n403$/s, 'a page from elsewhere');
like(curl('-d', 'x'), qr/\n405$/, 'POST');
like(curl(@mqtt, '-H', 'X: ' . 'x' x 9000), qr/\n431$/, 'a request that is too long');
ok($s->wait_for_log(qr/WebSocket from 127\.0\.0\.1:\d+ was refused \(4\d\d\)/), 'refusals are logged');

# ---- bytes ----

sub frame { return FleetlogTest::WebSocket::frame(@_) }
# A connection that has been upgraded; what came behind the answer stays in {in}.
sub open_ws
{
    my (%opt) = @_;
    my $c = FleetlogTest::Mqtt->open($ws, version => 4);
    my $key = MIME::Base64::encode_base64(pack('N4', map { int(rand(2**32)) } 1 .. 4), '');
    $c->send_raw("GET /mqtt HTTP/1.1\r\nHost: 127.0.0.1:$ws\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: $key\r\n"
          . "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n" . ($opt{early} // ''));
    FleetlogTest::wait_until(sub { $c->fill; $c->{in} =~ s/^(HTTP.*?\r\n\r\n)//s ? ($c->{answer} = $1) : $c->{closed} }, 'the answer');
    return $c;
}
# Waits for so many bytes of frames.
sub bytes { my ($c, $n) = @_; FleetlogTest::wait_until(sub { $c->fill; length $c->{in} >= $n || $c->{closed} }, 'bytes'); return $c->{in}; }

my $login = FleetlogTest::Mqtt::connect_packet({ version => 4 }, client_id => 'raw', user => 'acme/d1', password => 'pw-d1');
my $c = open_ws(early => frame(0x82, $login));
like($c->{answer}, qr/^HTTP\/1\.1 101 .*Sec-WebSocket-Protocol: mqtt\r\n/s, 'upgraded');
is(bytes($c, 6), "\x82\x04\x20\x02\x00\x00", 'a CONNECT that did not wait for the answer is taken, and its CONNACK is one frame');
$c->{in} = '';
# A PUBLISH over several frames, cut anywhere, with a ping in the middle, sent byte by byte.
my $publish = FleetlogTest::Mqtt::publish_packet({ version => 4 }, 'acme/d1/t', 'x' x 200, qos => 1, pid => 7);
$c->send_raw($_) for split //, frame(0x02, substr $publish, 0, 5) . frame(0x89, 'hi') . frame(0x00, substr $publish, 5, 50) . frame(0x80, substr $publish, 55);
is(bytes($c, 10), "\x8a\x02hi\x82\x04\x40\x02\x00\x07", 'the ping and the PUBLISH are answered');
$c->{in} = '';
# Two packets in one frame; then the end.
$c->send_raw(frame(0x82, "\xc0\x00\xc0\x00"));
is(bytes($c, 8), "\x82\x02\xd0\x00\x82\x02\xd0\x00", 'two packets in one frame');
$c->{in} = '';
$c->send_raw(frame(0x88, pack('n', 1000)));
is(bytes($c, 4), "\x88\x02\x03\xe8", 'a closing frame is answered');
FleetlogTest::wait_until(sub { $c->fill; $c->{closed} }, 'the end');
$s->wait_for("SELECT count(*) FROM fleetlog.stat_connection", '0', 'the connection to be gone');

for my $bad ([ 'a text frame', frame(0x81, "\x10\x00") ], [ 'a frame without mask', "\x82\x02\x10\x00" ], [ 'a reserved bit', frame(0xC2, 'x') ])
{
    my $c = open_ws();
    $c->send_raw($bad->[1]);
    is(bytes($c, 4), "\x88\x02\x03\xea", "$bad->[0]: closed with 1002");
    FleetlogTest::wait_until(sub { $c->fill; $c->{closed} }, 'the end');
}
$c = open_ws();
$c->send_raw(frame(0x82, "\x00\x00\x00"));
like(bytes($c, 4), qr/\x88\x02\x03\xe8$/, 'malformed MQTT ends the WebSocket as well, with a closing frame');

# Behind its DISCONNECT a client sends a closing frame: no reset may come between, which it would report as an error.
$c = open_ws(early => frame(0x82, $login));
is(bytes($c, 6), "\x82\x04\x20\x02\x00\x00", 'one that will say goodbye');
$c->{in} = '';
$c->send_raw(frame(0x82, "\xe0\x00"));
is(bytes($c, 4), "\x88\x02\x03\xe8", 'DISCONNECT is followed by a closing frame');
$s->wait_for("SELECT count(*) FROM fleetlog.stat_connection", '0', 'the connection to be gone');
$c->send_raw(frame(0x88, pack('n', 1000)));
FleetlogTest::wait_until(sub { $c->fill; $c->{closed} }, 'the end');
is(unpack('i', getsockopt($c->{socket}, SOL_SOCKET, SO_ERROR)), 0, 'and the client may send its own');
$c->close;

# A peer that sends pings and reads nothing is given up.
$c = open_ws();
my $flood = frame(0x89, 'x' x 125) x 1000;
my $end = time + $FleetlogTest::TIMEOUT;
1 while time < $end && eval { local $SIG{__DIE__}; local $FleetlogTest::Mqtt::TIMEOUT = 2; $c->send_raw($flood) };
cmp_ok(time, '<', $end, 'a flood of pings whose answers are not read comes to an end');
$c->close;
$s->wait_for("SELECT sum(open) FROM fleetlog.stat_listener WHERE protocol = 'ws'", '0', 'its connection to be gone');

# ---- paho ----

my $script = <<'PY';
import sys, ssl, threading, paho.mqtt.client as mqtt
port, ca, proto = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
done, got, n = threading.Event(), [], 200
big = bytes(range(256)) * 800
def on_connect(c, *a): c.subscribe('acme/d1/ws', 1)
def on_subscribe(c, *a):
    for i in range(n): c.publish('acme/d1/ws', 'm%d' % i, 1)
    c.publish('acme/d1/ws', big, 1)
def on_message(c, u, m):
    got.append(m.payload)
    if len(got) == n + 1: done.set()
# Since 2.0 the first argument says which arguments callbacks take.
version = [mqtt.CallbackAPIVersion.VERSION1] if hasattr(mqtt, 'CallbackAPIVersion') else []
c = mqtt.Client(*version, client_id='paho', protocol=proto, transport='websockets')
if ca: c.tls_set(ca)
c.username_pw_set('acme/d1', 'pw-d1')
c.ws_set_options(path='/mqtt')
c.on_connect, c.on_subscribe, c.on_message = on_connect, on_subscribe, on_message
c.connect('localhost', port); c.loop_start()
ok = done.wait(150)
c.disconnect(); c.loop_stop()
print('all' if ok and got == [b'm%d' % i for i in range(n)] + [big] else 'got %d' % len(got))
PY
SKIP:
{
    my $found = IPC::Run::run([ '/usr/bin/python3', '-c', 'import paho.mqtt.client' ], '2>', \my $ignored);
    skip('python3-paho-mqtt is not installed', 4) unless $found;
    for my $case ([ $ws, '', 4 ], [ $ws, '', 5 ], [ $wss, "$dir/ca.crt", 4 ], [ $wss, "$dir/ca.crt", 5 ])
    {
        my ($out, $err) = ('', '');
        IPC::Run::run([ '/usr/bin/python3', '-c', $script, @$case ], '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
        is($out, "all\n", 'paho, MQTT ' . ($case->[2] == 4 ? '3.1.1' : '5.0') . ($case->[1] ? ' over wss' : ' over ws') . ': all messages both ways, in order') or diag($err);
    }
}

# Settings are taken by a reload.
$s->set_conf(%conf, 'fleetlog.ws_path' => '/other', 'fleetlog.ws_origins' => 'https://app.example');
FleetlogTest::wait_until(sub { curl(@mqtt) =~ /\n404$/ }, 'the path');
like(curl(@mqtt, '-H', 'Origin: https://app.example', '-i', "http://127.0.0.1:$ws/other"), qr/^HTTP\/1\.1 101 /, 'a listed origin');
isnt($s->sql_error("ALTER SYSTEM SET fleetlog.ws_path = 'mqtt'"), undef, 'a path without slash is refused');
$s->wait_for("SELECT sum(open) FROM fleetlog.stat_listener", '0', 'all connections to be gone');
is($s->crashes, '', 'no crash');
done_testing();
