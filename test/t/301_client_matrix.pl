# Issue 5, X1, M1, M2: clients that people have, as a matrix: mosquitto_pub and mosquitto_sub, Paho for C and for Python;
# MQTT 3.1, 3.1.1 and 5.0; QoS 0, 1 and 2 both ways; plain, TLS, client certificate, pre-shared key, WebSocket without and
# with TLS.  mqtt.js, which Debian has not, is in test/interop/mqttjs.sh.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use JSON::PP ();
use FleetlogTest;
use FleetlogTest::Pki;

my $COUNT = 3;
my $source = $ENV{FLEETLOG_SOURCE} // '.';
my ($mqtts, $ws, $wss) = map { PostgreSQL::Test::Cluster::get_free_port() } 1 .. 3;
my $s = FleetlogTest->new('matrix', no_start => 1);
my $dir = $s->node->basedir . '/pki';
my $pki = FleetlogTest::Pki->new($dir);
my $key = '00112233445566778899aabbccddeeff';
$pki->issue('server', subject => '/CN=localhost', san => 'DNS:localhost,IP:127.0.0.1');
$pki->issue('c1', subject => '/CN=device one');
$s->set_conf('fleetlog.mqtts_listen' => "127.0.0.1:$mqtts", 'fleetlog.ws_listen' => "127.0.0.1:$ws", 'fleetlog.wss_listen' => "127.0.0.1:$wss",
    'fleetlog.tls_cert_file' => "$dir/server.crt", 'fleetlog.tls_key_file' => "$dir/server.key", 'fleetlog.tls_ca_file' => "$dir/ca.crt", 'fleetlog.tls_psk' => 'on');
$s->start_and_install;
$s->fleet(devices => 1);
$s->sql("SELECT fleetlog.create_device('c1', 'acme', certificate_subject => 'device one'); SELECT fleetlog.create_device('p1', 'acme', psk => '\\x$key')");
$s->wait_for("SELECT count(DISTINCT protocol) FROM fleetlog.stat_listener WHERE state = 'listening'", '4', 'the listeners');

# Every way in: where to, who is there, and how each client is told so (undef: it cannot).
my @ways = (
    { name => 'tcp', device => 'd1', password => 1, port => $s->port, c => 'tcp' },
    { name => 'tls', device => 'd1', password => 1, port => $mqtts, c => 'ssl', ca => 1 },
    { name => 'cert', device => 'c1', port => $mqtts, c => 'ssl', ca => 1, cert => 1 },
    { name => 'psk', device => 'p1', port => $mqtts, c => 'ssl', psk => 1 },
    { name => 'ws', device => 'd1', password => 1, port => $ws, c => 'ws', websocket => 1 },
    { name => 'wss', device => 'd1', password => 1, port => $wss, c => 'wss', websocket => 1, ca => 1 },
);
my %versions = (3 => 'mqttv31', 4 => 'mqttv311', 5 => 'mqttv5');

sub has { my ($program) = @_; return scalar grep { -x "$_/$program" } split /:/, $ENV{PATH}; }
sub topic { my ($client, $way, $version, $qos) = @_; return join '/', 'acme', $way->{device}, $client, $way->{name}, $version, $qos // '#'; }
sub expected { my ($qos) = @_; return join "\n", map { "m$_" } 1 .. $COUNT; }
sub stored
{
    my ($topic) = @_;
    return $s->sql("SELECT string_agg(fleetlog.text(payload), E'\n' ORDER BY log_offset) FROM telemetry WHERE key = '$topic'");
}

# ---- Mosquitto's clients: a subscriber for each way and version, a publisher for each QoS ----

SKIP:
{
    skip('mosquitto-clients is not installed', 1) unless has('mosquitto_pub');
    my @rows;
    my $who = sub {
        my ($way, $version) = @_;
        return ('-h', 'localhost', '-p', $way->{port}, '-V', $versions{$version},
            $way->{password} ? ('-u', "acme/$way->{device}", '-P', "pw-$way->{device}") : (),
            $way->{ca} ? ('--cafile', "$dir/ca.crt") : (), $way->{cert} ? ('--cert', "$dir/c1.crt", '--key', "$dir/c1.key") : (),
            $way->{psk} ? ('--psk-identity', 'acme/p1', '--psk', $key) : ());
    };
    for my $way (grep { !$_->{websocket} } @ways)
    {
        for my $version (3, 4, 5)
        {
            my $row = { way => $way, version => $version, out => '', err => '' };
            $row->{sub} = IPC::Run::start([ 'mosquitto_sub', $who->($way, $version), '-i', "mosq-$way->{name}-$version", '-q', 2, '-t', topic('mosq', $way, $version), '-F', '%q %p', '-C', 3 * $COUNT ],
                '>', \$row->{out}, '2>', \$row->{err}, IPC::Run::timeout($FleetlogTest::TIMEOUT));
            push @rows, $row;
        }
    }
    $s->wait_for("SELECT count(*) FROM fleetlog.stat_connection WHERE client_id LIKE 'mosq-%' AND subscriptions > 0", scalar @rows, 'all have subscribed');
    for my $row (@rows)
    {
        for my $qos (0, 1, 2)
        {
            my $lines = expected() . "\n";
            my $label = "mosquitto $row->{way}{name} $versions{$row->{version}} QoS $qos";
            my $ok = IPC::Run::run([ 'mosquitto_pub', $who->($row->{way}, $row->{version}), '-q', $qos, '-t', topic('mosq', $row->{way}, $row->{version}, $qos), '-l' ],
                '<', \$lines, '>', \my $out, '2>', \my $err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
            ok($ok, "$label: published") or diag($err);
        }
    }
    for my $row (@rows)
    {
        my $label = "mosquitto $row->{way}{name} $versions{$row->{version}}";
        $row->{sub}->finish;
        is($row->{out}, join('', map { my $qos = $_; map { "$qos m$_\n" } 1 .. $COUNT } 0 .. 2), "$label: all came, at their QoS, in order") or diag($row->{err});
        is(stored(topic('mosq', $row->{way}, $row->{version}, $_)), expected(), "$label QoS $_: and is in the stream") for 0 .. 2;
    }
}

# ---- Paho for C ----

SKIP:
{
    my $program = $s->node->basedir . '/paho_client';
    skip('libpaho-mqtt-dev is not installed', 1) unless -e '/usr/include/MQTTClient.h';
    my $ok = IPC::Run::run([ 'cc', '-Wall', '-Wextra', '-Werror', '-o', $program, "$source/test/interop/paho_client.c", '-lpaho-mqtt3cs' ], '>', \my $out, '2>', \my $err);
    ok($ok, 'a client on Paho for C') or diag($err);
    my @rows;
    for my $way (@ways)
    {
        for my $version (3, 4, 5)
        {
            for my $qos (0, 1, 2)
            {
                my $row = { name => "paho-c $way->{name} $versions{$version} QoS $qos", topic => topic('pahoc', $way, $version, $qos), qos => $qos, out => '', err => '' };
                my $path = $way->{websocket} ? '/mqtt' : '';
                $row->{command} = [ $program, "$way->{c}://localhost:$way->{port}$path", $version, $qos, "pahoc-$way->{name}-$version-$qos", $row->{topic}, $COUNT,
                    $way->{password} ? ("user=acme/$way->{device}", "password=pw-$way->{device}") : (), $way->{ca} ? "ca=$dir/ca.crt" : (),
                    $way->{cert} ? ("cert=$dir/c1.crt", "key=$dir/c1.key") : (), $way->{psk} ? ('identity=acme/p1', "psk=$key") : () ];
                push @rows, $row;
            }
        }
    }
    # Several at once: they mostly wait.
    while (my @some = splice @rows, 0, 9)
    {
        $_->{run} = IPC::Run::start($_->{command}, '>', \$_->{out}, '2>', \$_->{err}, IPC::Run::timeout($FleetlogTest::TIMEOUT)) for @some;
        for my $row (@some)
        {
            $row->{run}->finish;
            is("$row->{out}$row->{err}", expected() . "\n", "$row->{name}: published, and all came in order");
            is(stored($row->{topic}), expected(), "$row->{name}: and is in the stream");
        }
    }
}

# ---- Paho for Python, which knows no pre-shared keys ----

SKIP:
{
    skip('python3-paho-mqtt is not installed', 1) unless IPC::Run::run([ '/usr/bin/python3', '-c', 'import paho.mqtt.client' ], '2>', \my $ignored);
    my @rows;
    for my $way (grep { !$_->{psk} } @ways)
    {
        for my $version (3, 4, 5)
        {
            for my $qos (0, 1, 2)
            {
                push @rows, { name => "pahopy-$way->{name}-$version-$qos", transport => $way->{websocket} ? 'websockets' : 'tcp', host => 'localhost', port => $way->{port} + 0,
                    version => $version, qos => $qos, topic => topic('pahopy', $way, $version, $qos),
                    $way->{password} ? (user => "acme/$way->{device}", password => "pw-$way->{device}") : (), $way->{ca} ? (ca => "$dir/ca.crt") : (),
                    $way->{cert} ? (cert => "$dir/c1.crt", key => "$dir/c1.key") : () };
            }
        }
    }
    my $work = JSON::PP::encode_json({ rows => \@rows, count => $COUNT });
    IPC::Run::run([ '/usr/bin/python3', "$source/test/interop/paho_matrix.py" ], '<', \$work, '>', \my $out, '2>', \my $err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    my %said = map { /^(?:not )?ok (\S+?):?(?: |$)/ ? ($1 => $_) : () } split /\n/, $out;
    for my $row (@rows)
    {
        is($said{ $row->{name} } // 'nothing', "ok $row->{name}", "$row->{name}: published, and all came at their QoS, in order") or diag($err);
        is(stored($row->{topic}), expected(), "$row->{name}: and is in the stream");
    }
}

is($s->density_faults, '', 'offsets dense, time in order');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
