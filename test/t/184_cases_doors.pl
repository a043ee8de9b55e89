# M2, I3: public cases about WebSocket framing, revoked certificates at every listener, and rights, which are the same
# wherever a client comes in.  Cases O67, O68, O69, O-C.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use FleetlogTest;
use FleetlogTest::Pki;
use FleetlogTest::WebSocket;

my ($ws, $wss, $mqtts) = map { PostgreSQL::Test::Cluster::get_free_port() } 1 .. 3;
my $s = FleetlogTest->new('doors', no_start => 1);
my $dir = $s->node->basedir . '/pki';
my $pki = FleetlogTest::Pki->new($dir);
$pki->issue('server', subject => '/CN=localhost', san => 'DNS:localhost,IP:127.0.0.1');
$pki->issue($_, subject => "/CN=device $_") for qw(c1 c2);
my %conf = ('fleetlog.ws_listen' => "127.0.0.1:$ws", 'fleetlog.wss_listen' => "127.0.0.1:$wss", 'fleetlog.mqtts_listen' => "127.0.0.1:$mqtts",
    'fleetlog.tls_cert_file' => "$dir/server.crt", 'fleetlog.tls_key_file' => "$dir/server.key", 'fleetlog.tls_ca_file' => "$dir/ca.crt", 'fleetlog.tls_crl_file' => "$dir/ca.crl");
$s->set_conf(%conf);
$s->start_and_install;
$s->fleet(devices => 2);
$s->sql("SELECT fleetlog.create_device('$_', 'acme', certificate_subject => 'device $_')") for qw(c1 c2);
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE protocol <> 'mqtt' AND state = 'listening'", '6', 'the listeners');

my ($mqtt3, $mqtt5) = ({ version => 4 }, { version => 5 });
my @login = (user => 'acme/d1', password => 'pw-d1');
sub frame { return FleetlogTest::WebSocket::frame(@_); }
sub fragments { return FleetlogTest::WebSocket::fragments(@_); }
sub answer { my ($c) = @_; my $p = $c->read_packet; return ref $p ? join ':', grep { defined } @{$p}{qw(name pid reason)} : $p // 'nothing'; }
# What the other end said when it closed: the code of its closing frame.
sub closing
{
    my ($c) = @_;
    FleetlogTest::wait_until(sub { $c->fill; $c->{closed} }, 'the end');
    my ($close) = grep { $_->[0] == 0x88 } @{ $c->{control} };
    return $close ? unpack('n', $close->[1]) : 'none';
}

# ---- O67: one stream of bytes, however it is cut ----

for my $mqtt ($mqtt3, $mqtt5)
{
    my $v = "version $mqtt->{version}";
    my $c = FleetlogTest::WebSocket->open($ws, %$mqtt);
    $c->send_frames(frame(0x82, $_)) for split //, $c->connect_packet(client_id => 'one', @login);
    is(answer($c), 'CONNACK:0', "O67: $v: a CONNECT in frames of one byte");
    my $publish = $c->publish_packet('acme/d1/t', 'x', qos => 1, pid => 7);
    my $subscribe = FleetlogTest::Mqtt::packet(0x82, pack('n', 9) . ($mqtt->{version} == 5 ? "\0" : '') . FleetlogTest::Mqtt::str('acme/d1/none') . "\1");
    $c->send_frames(frame(0x82, "$subscribe\xc0\x00$publish"));
    is(join(' ', map { answer($c) } 1 .. 3), 'SUBACK:9 PINGRESP PUBACK:7:0', "O67: $v: three packets in one frame");
    $c->send_frames(fragments(substr($publish, 0, 3), [ 0x89, 'hi' ], substr($publish, 3, 4), substr($publish, 7)));
    is(answer($c), 'PUBACK:7:0', "O67: $v: a fragmented message with a ping inside");
    is(join(' ', map { sprintf '%x %s', @$_ } @{ $c->{control} }), '8a hi', "O67: $v: whose answer comes, too");
    $c->send_frames(frame(0x82, substr $publish, 0, 5));
    $c->send_frames(frame(0x82, substr($publish, 5) . substr($publish, 0, 9)));
    $c->send_frames(frame(0x82, substr $publish, 9));
    is(join(' ', map { answer($c) } 1, 2), 'PUBACK:7:0 PUBACK:7:0', "O67: $v: frames that end and begin inside of packets");

    # O68: frames without content, anywhere.
    $c->send_frames(frame(0x82, '') . frame(0x82, "\xc0\x00"));
    is(answer($c), 'PINGRESP', "O68: $v: an empty frame is nothing");
    $c->send_frames(frame(0x82, substr $publish, 0, 5) . frame(0x82, '') . frame(0x82, substr $publish, 5));
    is(answer($c), 'PUBACK:7:0', "O68: $v: also inside of a packet");
    $c->send_frames(fragments('', substr($publish, 0, 5), '', [ 0x89, '' ], substr($publish, 5), ''));
    is(answer($c), 'PUBACK:7:0', "O68: $v: also as first, middle and last fragment");
    is($c->{control}[-1][0], 0x8A, "O68: $v: and as a ping");

    # Many packets, cut at random into fragments of random sizes with pings between them.
    my ($stream, @wanted, @got) = ('');
    for my $round (1 .. 6)
    {
        for my $n (1 .. 10)
        {
            if (rand() < 0.3) { $stream .= "\xc0\x00"; push @wanted, 'PINGRESP'; next; }
            $stream .= $c->publish_packet('acme/d1/t', 'p' x int(rand 300), qos => 1, pid => $n);
            push @wanted, "PUBACK:$n:0";
        }
        while (length $stream)
        {
            my @cuts = map { substr $stream, 0, int(rand 120), '' } 0 .. int(rand 4);
            splice @cuts, int(rand @cuts), 0, [ 0x89, 'x' x int(rand 125) ] if rand() < 0.3 && @cuts > 1;
            $c->send_frames(fragments(@cuts));
        }
        push @got, answer($c) while @got < @wanted;
    }
    is(join(' ', grep { $_ ne 'PINGRESP' } @got), join(' ', grep { $_ ne 'PINGRESP' } @wanted), "O67: $v: packets cut at random are answered in order");
    is(scalar(grep { $_ eq 'PINGRESP' } @got), scalar(grep { $_ eq 'PINGRESP' } @wanted), "O67: $v: and so are pings of MQTT");

    # Lengths of all three forms.
    for my $size (100, 1000, 100_000)
    {
        $c->send_raw($c->publish_packet('acme/d1/big', 'b' x $size, qos => 1, pid => 3));
        is(answer($c), 'PUBACK:3:0', "O67: $v: a frame of some $size bytes");
    }
    $c->subscribe([ [ 'acme/d1/back', 0 ] ]);
    for my $size (10, 200, 70_000)
    {
        $c->publish('acme/d1/back', 'b' x $size);
        my ($m) = $c->messages(1);
        is(length($m->{payload}), $size, "O67: $v: some $size bytes come back");
    }
    $c->send_frames(frame(0x81, "\xc0\x00"));
    is(closing($c), 1002, "O68: $v: a text frame closes");
    for my $frame (frame(0x81, ''), frame(0x80, 'x'), frame(0x02, 'x') . frame(0x82, 'x'), frame(0x89, 'x' x 126), frame(0x09, 'x'))
    {
        $c = FleetlogTest::WebSocket->open($ws, %$mqtt);
        $c->send_frames($frame);
        is(closing($c), 1002, "O68: $v: so does what breaks the rules of frames: " . unpack('H8', $frame));
    }
}
is($s->sql("SELECT string_agg(DISTINCT length(payload)::text, ' ') FROM telemetry WHERE key = 'acme/d1/big'"), '100 1000 100000', 'payloads are whole');

# ---- O69: revoked certificates ----

# A device at a TLS listener with its certificate: what it is told, to the end of its CONNECT.
sub knock
{
    my ($port, $name, @more) = @_;
    my ($out, $err) = ('', '');
    my $connect = FleetlogTest::Mqtt::connect_packet($mqtt3, client_id => $name);
    my ($in, $open) = FleetlogTest::input($port == $wss ? FleetlogTest::WebSocket::request($port) . frame(0x82, $connect) : $connect);
    my $h = IPC::Run::start([ 'openssl', 's_client', '-connect', "127.0.0.1:$port", '-CAfile', "$dir/ca.crt", '-cert', "$dir/$name.crt", '-key', "$dir/$name.key", '-quiet', '-no_ign_eof', @more ],
        '<', $in, '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    FleetlogTest::wait_until(sub { $h->pump_nb; $out =~ /\x20\x02\x00./s || $err =~ /alert/ || !$h->pumpable }, 'an answer');
    $h->kill_kill;
    return $out =~ /\x20\x02\x00\x00/ ? 'in' : $err =~ /alert (?:certificate )?(\w+)/ ? $1 : "out: $err";
}
my %where = (mqtts => $mqtts, wss => $wss);
for my $protocol (sort keys %where)
{
    for my $tls ('-tls1_2', '-tls1_3') { is(knock($where{$protocol}, $_, $tls), 'in', "$protocol, $tls: $_ is let in") for qw(c1 c2); }
}
$pki->revoke('c2');
$s->node->reload;
FleetlogTest::wait_until(sub { my %seen = map { knock($mqtts, 'c2', '-tls1_2') => 1 } 1 .. 6; !$seen{in} }, 'all front doors to have the new list');
for my $protocol (sort keys %where)
{
    for my $tls ('-tls1_2', '-tls1_3')
    {
        is(join(' ', map { knock($where{$protocol}, 'c2', $tls) } 1 .. 4), 'revoked revoked revoked revoked', "O69: $protocol, $tls: a revoked certificate is refused after a reload");
        is(knock($where{$protocol}, 'c1', $tls), 'in', "O69: $protocol, $tls: another one is not");
    }
}
# A listener that has no list it could ask is shut, not open.
$s->set_conf(%conf, 'fleetlog.tls_crl_file' => "$dir/nothing.crl");
$s->node->restart;
$s->wait_for_mqtt;
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE protocol IN ('mqtts', 'wss') AND state <> 'listening'", '4', 'the listeners to say so');
is(knock($mqtts, 'c2', '-tls1_2') ne 'in' && knock($mqtts, 'c1', '-tls1_2') ne 'in' ? 'shut' : 'open', 'shut', 'O69: without its list of revoked ones nobody is let in');
$s->set_conf(%conf);
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE protocol <> 'mqtt' AND state = 'listening'", '6', 'the listeners');

# ---- O-C: rights are those of who comes, at whatever listener ----

$s->sql("SELECT fleetlog.allow('acme', 'publish', 'acme/shared/{device}')");
my $plain = $s->device('d1', client_id => 'plain');
my $web = FleetlogTest::WebSocket->open($ws, version => 5);
is($web->login(client_id => 'web', @login)->{reason}, 0, 'a device by WebSocket');
my %by = (mqtt => $plain, ws => $web);
for my $protocol (sort keys %by)
{
    my $c = $by{$protocol};
    FleetlogTest::wait_until(sub { $c->publish_acked('acme/shared/d1', 'x') == 0 }, 'the rule');
    is($c->publish_acked('acme/d2/t', 'x'), 0x87, "O-C: $protocol: another's topic is refused");
    is(join(',', $c->subscribe([ 'acme/d2/#', '#', 'acme/d1/#' ])), '135,135,0', "O-C: $protocol: so are filters");
    is($c->publish_acked('acme/shared/d2', 'x'), 0x87, "O-C: $protocol: a rule allows what it says");
}
$s->sql("SELECT fleetlog.disallow('acme', 'publish', 'acme/shared/{device}')");
for my $protocol (sort keys %by)
{
    FleetlogTest::wait_until(sub { $by{$protocol}->publish_acked('acme/shared/d1', 'x') != 0 }, 'the rule to be gone');
    pass("O-C: $protocol: and is gone when it is withdrawn");
}
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
