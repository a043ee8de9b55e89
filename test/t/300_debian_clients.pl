# X1, M1: the clients that people have: mosquitto_pub and mosquitto_sub of both versions, and paho for Python.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use FleetlogTest;

sub has { my ($program) = @_; return scalar grep { -x "$_/$program" } split /:/, $ENV{PATH}; }
plan skip_all => 'mosquitto-clients is not installed' unless has('mosquitto_pub');

my $s = FleetlogTest->new('clients');
$s->fleet(devices => 2);
my @common = ('-h', '127.0.0.1', '-p', $s->port, '-u', 'acme/d1', '-P', 'pw-d1');

sub publish
{
    my (@args) = @_;
    my $err = '';
    my $ok = IPC::Run::run([ 'mosquitto_pub', @common, @args ], '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    return ($ok, $err);
}

for my $version ('mqttv31', 'mqttv311', 'mqttv5')
{
    my ($out, $err) = ('', '');
    my $n = 3;
    my $sub = IPC::Run::start([ 'mosquitto_sub', @common, '-V', $version, '-i', "sub-$version", '-q', '1', '-t', "acme/d1/$version/#", '-v', '-C', $n * 2 ],
        '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    $s->wait_for("SELECT count(*) = 1 FROM fleetlog.stat_connection WHERE client_id = 'sub-$version' AND subscriptions > 0", 't', "$version subscribed");
    for my $qos (0, 1)
    {
        for my $i (1 .. $n)
        {
            my ($ok, $e) = publish('-V', $version, '-q', $qos, '-t', "acme/d1/$version/q$qos", '-m', "reading $i");
            ok($ok, "$version QoS $qos: mosquitto_pub") or diag($e);
        }
    }
    $sub->finish;
    is($sub->result(0), 0, "$version: mosquitto_sub") or diag($err);
    is(join("\n", sort split /\n/, $out), join("\n", sort map { my $q = $_; map { "acme/d1/$version/q$q reading $_" } 1 .. $n } 0, 1), "$version: it received all");
    is($s->sql("SELECT count(*) FROM telemetry WHERE key LIKE 'acme/d1/$version/%' AND device = 'd1'"), $n * 2, "$version: all are in the stream");
}

my ($ok, $err) = publish('-V', 'mqttv5', '-q', 1, '-t', 'acme/d1/props', '-m', '{"t": 21.5}', '-D', 'publish', 'user-property', 'unit', 'C', '-D', 'publish', 'content-type', 'application/json');
ok($ok, 'properties by mosquitto_pub') or diag($err);
is($s->sql("SELECT headers ->> 'unit' || ' ' || (headers ->> 'content-type') || ' ' || (fleetlog.json(payload) ->> 't') FROM telemetry WHERE key = 'acme/d1/props'"),
    'C application/json 21.5', 'and SQL over them');
my $lines = join '', map { "line $_\n" } 1 .. 500;
my $said = '';
# 2.1.2 sometimes stops half way, closes its connection and says that all is well; so what it was told decides.
$ok = IPC::Run::run([ 'mosquitto_pub', @common, '-q', 1, '-t', 'acme/d1/lines', '-l', '-d' ], '<', \$lines, '>', \$said, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
ok($ok, '500 lines by mosquitto_pub -l') or diag($err);
my $acked = () = $said =~ /received PUBACK/g;
cmp_ok($acked, '>', 0, "$acked lines were acknowledged");
is($s->sql("SELECT count(*) >= $acked, bool_and(fleetlog.text(payload) = 'line ' || n) FROM (SELECT payload, row_number() OVER (ORDER BY log_offset) n FROM telemetry WHERE key = 'acme/d1/lines') t"),
    't|t', 'and are records, in their order, none left out');
my $bad = '';
$ok = IPC::Run::run([ 'mosquitto_pub', '-h', '127.0.0.1', '-p', $s->port, '-u', 'acme/d1', '-P', 'wrong', '-t', 'acme/d1/x', '-m', 'x' ], '2>', \$bad, IPC::Run::timeout($FleetlogTest::TIMEOUT));
ok(!$ok, 'a wrong password is refused');
like($bad, qr/[Nn]ot authori[sz]ed|[Bb]ad user name or password|refused/, 'and the client can tell why');

SKIP:
{
    my $found = IPC::Run::run([ 'python3', '-c', 'import paho.mqtt.client' ], '2>', \my $ignored);
    skip('python3-paho-mqtt is not installed', 2) unless $found;
    my $program = <<'PY';
import sys, threading
import paho.mqtt.client as mqtt
port, n = int(sys.argv[1]), 200
done, got = threading.Event(), []
def client(name, version):
    c = mqtt.Client(client_id=name, protocol=version) if not hasattr(mqtt, "CallbackAPIVersion") else \
        mqtt.Client(mqtt.CallbackAPIVersion.VERSION1, client_id=name, protocol=version)
    c.username_pw_set("acme/d2", "pw-d2")
    return c
ready = threading.Event()
s = client("paho-sub", mqtt.MQTTv311)
s.on_connect = lambda c, u, f, rc: c.subscribe("acme/d2/#", 1)
s.on_subscribe = lambda c, u, mid, q: ready.set()
def on_message(c, u, m):
    got.append(m.payload)
    if len(got) == n: done.set()
s.on_message = on_message
s.connect("127.0.0.1", port); s.loop_start()
assert ready.wait(150), "no SUBACK"
p = client("paho-pub", mqtt.MQTTv5)
p.connect("127.0.0.1", port); p.loop_start()
for i in range(n):
    info = p.publish("acme/d2/paho", str(i), qos=1)
info.wait_for_publish(150)
assert done.wait(150), "received %d of %d" % (len(got), n)
assert got == [str(i).encode() for i in range(n)], "out of order"
p.disconnect(); s.disconnect()
print("ok")
PY
    my ($out, $e) = ('', '');
    IPC::Run::run([ 'python3', '-', $s->port ], '<', \$program, '>', \$out, '2>', \$e, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    is($out, "ok\n", 'paho: 200 messages at QoS 1 from 5.0 to 3.1.1, in order') or diag($e);
    is($s->sql("SELECT count(*) FROM telemetry WHERE key = 'acme/d2/paho'"), '200', 'and in the stream');
}
is($s->density_faults, '', 'offsets dense, time in order');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
