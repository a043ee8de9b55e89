# M1, M10: what a lenient front door bears and a strict one does not (O44, O-H), names that are nobody's where anonymous
# clients are let in, a CONNACK that is small enough for a small client and has nothing in it that its version lacks, what the
# dialects of other projects' tests add, and what anonymous clients may not read.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('dialect', conf => "fleetlog.allow_anonymous = on\nfleetlog.max_session_expiry = 1000\nfleetlog.workers = 1\n");
$s->sql("SELECT fleetlog.create_stream('telemetry'), fleetlog.create_state('now')");
$s->sql("SELECT fleetlog.mount('', 'telemetry', state => 'now')");

sub client
{
    my ($id, %opt) = @_;
    my $c = $s->raw(version => $opt{version} // 5);
    my $ack = $c->login(client_id => $id, %opt);
    die "$id: " . (ref $ack ? $ack->{reason} : $ack // 'nothing') unless ref $ack && $ack->{reason} == 0;
    $c->{connack} = $ack;
    return $c;
}
sub reason { my ($ack) = @_; return ref $ack ? $ack->{reason} : $ack; }
sub next_one { my ($c) = @_; my $p = $c->read_packet; return ref $p ? "$p->{name}:" . ($p->{reason} // 0) : $p; }
# What a dialect answers to a PUBREL that names nothing, to a filter that is withheld, and to what nobody hears.
my %answers = (lenient => '0 135 0', strict => '146 135 0', paho => '0 128 0', mosquitto => '0 135 16');
sub dialect
{
    my ($to, $withheld) = @_;
    $s->set_conf('fleetlog.mqtt_dialect' => $to, 'fleetlog.anonymous_no_subscribe' => join ', ', 'withheld/probe', $withheld // ());
    FleetlogTest::wait_until(
        sub {
            my $c = client('probe');
            $c->pubrel(99);
            my $seen = join ' ', $c->expect('PUBCOMP')->{reason}, $c->subscribe([ [ 'withheld/probe', 0 ] ]), $c->publish_acked('unheard/probe', 'x');
            $c->disconnect;
            return $seen eq $answers{$to};
        },
        "dialect $to");
    return;
}

# ---- what a subscriber must never see, whoever sends it ----
my $listener = client('listener');
$listener->subscribe([ [ 'o44/#', 1 ] ], properties => [ [ 11, 7 ] ]);
my $c = client('c');
$c->send_hex('32 0c 0005 6f34342f61 0001 02 0b05');    # o44/a, QoS 1, identifier 5
is(next_one($c), 'PUBACK:0', 'lenient: a subscription identifier in a PUBLISH is borne');
my ($m) = $listener->messages(1);
is(join(',', map { $_->[1] } grep { $_->[0] == 11 } @{ $m->{properties} }), '7', 'O44: it is not forwarded, the subscriber sees its own');
is($s->sql("SELECT headers::text LIKE '%0b%' OR headers::text LIKE '%subscription%' FROM telemetry WHERE key = 'o44/a'"), 'f', 'nor kept');
$c->send_hex('30 0c 0005 6f34342f61 04 0b05 0b06');
is($c->ending, '0x82', 'two of them are an error in any dialect');
$c = client('c');
$c->pubrel(4711);
is(next_one($c), 'PUBCOMP:0', 'lenient: a PUBREL that names nothing succeeds');
$c->pubrec(4711);
is(next_one($c), 'PUBREL:0', 'lenient: so does a PUBREC');
dialect('strict');
$c = client('c');
$c->pubrel(4711);
is(next_one($c), 'PUBCOMP:146', 'strict: O-H: 0x92 for a PUBREL');
$c->pubrec(4711);
is(next_one($c), 'PUBREL:146', 'strict: O-H: and for a PUBREC');
$c->send_hex('32 0c 0005 6f34342f61 0001 02 0b05');
is($c->ending, '0x82', 'strict: O44: a subscription identifier ends the connection');
$listener->disconnect;

# ---- what anonymous clients may not read ----
$s->sql("SELECT fleetlog.publish('withheld/a/old', 'old', retain => true)");
my $before = client('before');
is(join(',', $before->subscribe([ [ 'withheld/+/new', 1 ] ])), '1', 'nothing is withheld at first');
dialect('paho', 'nothing/here, withheld/a/#');
my $paho = client('paho');
is(join(',', $paho->subscribe([ [ 'withheld/a', 1 ], [ 'withheld/a/#', 1 ], [ 'nothing/here', 1 ], [ 'withheld/+', 1 ], [ 'withheld', 1 ] ])),
    '128,128,128,1,1', 'paho: what is withheld is refused with 0x80, what is wider is not');
dialect('lenient', 'nothing/here, withheld/a/#');
my $reader = client('reader');
is(join(',', $reader->subscribe([ [ 'withheld/a/new', 1 ] ])), '135', 'else with 0x87');
is(join(',', client('reader3', version => 4)->subscribe([ [ 'withheld/a/new', 1 ] ])), '128', '3.1.1: 0x80');
$reader->subscribe([ [ 'withheld/#', 1 ], [ '$share/g/withheld/a/#', 1 ] ]);
my $sharer = client('sharer');
is(join(',', $sharer->subscribe([ [ '$share/g/withheld/a/#', 1 ], [ '$share/h/withheld/#', 1 ] ])), '135,1', 'a shared filter is judged by what is behind the group');
my $writer = client('writer');
is($writer->publish_acked($_, 'x'), 0, "who may not read may write: $_") for 'withheld/a/new', 'withheld/b/new';
for my $who ($before, $reader, $sharer)
{
    my ($got) = $who->messages(1);
    is($got->{topic}, 'withheld/b/new', 'a wider subscription does not get it, retained or live');
}
my $session = client('session', clean => 0, properties => [ [ 17, 600 ] ]);
$session->subscribe([ [ 'withheld/#', 1, 2 ] ]);
$session->disconnect;
is($writer->publish_acked($_, 'y'), 0, 'written meanwhile') for 'withheld/a/new', 'withheld/b/new';
$session = client('session', clean => 0, properties => [ [ 17, 600 ] ]);
my ($late) = $session->messages(1);
is($late->{topic}, 'withheld/b/new', 'nor later, where there is a session');
$_->disconnect for $before, $reader, $sharer, $paho;
$session->disconnect;
client('session')->disconnect;
isnt($s->sql_error("ALTER SYSTEM SET fleetlog.anonymous_no_subscribe = 'a/#/b'"), undef, 'what is no filter is no setting');

# ---- nobody is there to hear it ----
$s->wait_for('SELECT count(*) FROM fleetlog.stat_session', 0, 'sessions to end');
dialect('mosquitto');
$writer = client('writer');
is($writer->publish_acked('heard/a', 'x'), 0x10, 'mosquitto: PUBACK 0x10 where nobody has subscribed');
$writer->publish('heard/a', 'x', qos => 2);
is(next_one($writer), 'PUBREC:0', 'but no PUBREC');
my $hearer = client('hearer', clean => 0, properties => [ [ 17, 600 ] ]);
$hearer->subscribe([ [ 'heard/+', 0 ] ]);
is($writer->publish_acked('heard/a', 'x'), 0, 'but not where somebody has');
is($writer->publish_acked('unheard/a', 'x'), 0x10, 'nor for what they have not subscribed to');
$hearer->disconnect;
$s->wait_for('SELECT count(*) FROM fleetlog.stat_session WHERE NOT connected', 1, 'the subscriber to leave');
is($writer->publish_acked('heard/a', 'x'), 0, 'nor where they may come back');
$writer->disconnect;
client('hearer')->disconnect;
dialect('lenient');

# ---- CONNACK ----
$c = client('tiny', properties => [ [ 39, 20 ] ]);
is(FleetlogTest::Mqtt::property($c->{connack}, 33), 20, 'a client that allows packets of 20 bytes is told the receive maximum');
ok(defined FleetlogTest::Mqtt::property($c->{connack}, 39), 'and the packet size');
$c->ping;
my $small = $s->raw;
$small->send_raw($small->connect_packet(client_id => 'none', properties => [ [ 39, 8 ] ]));
is($small->ending, 'closed', 'one that allows no CONNACK cannot be served');
is(FleetlogTest::Mqtt::property(client('se', clean => 0, properties => [ [ 17, 900 ], [ 39, 20 ] ])->{connack}, 17), undef,
    'the expiry that was asked for need not be told to a small client');
is(FleetlogTest::Mqtt::property(client('se2', clean => 0, properties => [ [ 17, 2000 ] ])->{connack}, 17), 1000, 'O-L: another one is told');
for my $version (3, 4)
{
    for my $again (0, 1)
    {
        my $raw = $s->raw(version => $version);
        my $ack = $raw->login(client_id => "present$version", clean => 0);
        is(reason($ack), 0, "version $version, clean session 0");
        is($ack->{session_present}, $version == 4 ? $again : 0, $version == 3 ? 'MQTT 3.1 has no Session Present' : "Session Present $again");
        $raw->disconnect;
        $s->wait_for("SELECT count(*) FROM fleetlog.stat_connection WHERE client_id = 'present$version'", 0, 'it to leave');
    }
}

# ---- user names ----
my %with = (password => { user => 'fritz', password => 'secret' }, 'no password' => { user => 'fritz' },
    'an empty password' => { user => 'fritz', password => '' }, 'a password with U+0000' => { user => 'fritz', password => "a\0b" });
for my $version (4, 5)
{
    for my $how (sort keys %with)
    {
        is(reason($s->raw(version => $version)->login(client_id => 'named', %{ $with{$how} })), 0, "version $version: a name that is nobody's with $how is anonymous");
    }
}
my $no = $s->raw->login(client_id => 'role', user => 'postgres', password => 'secret');
is(reason($no), 0x86, 'but not the name of a role that may log in');
is(reason($s->raw->login(client_id => 'role', user => 'postgres')), 0x86, 'with or without a password');
$s->sql("SELECT fleetlog.create_tenant('acme', 'acme/'); SELECT fleetlog.create_device('d1', 'acme', password => 'pw-d1')");
for my $how (sort keys %with)
{
    is(reason($s->raw->login(client_id => 'named', %{ $with{$how} })), 0x86, "with the first device it is refused with $how");
}
is(reason($s->raw->login(client_id => 'd1', user => 'acme/d1', password => 'pw-d1')), 0, 'the device logs in');
is(reason($s->raw->login(client_id => 'd1', user => 'acme/d1')), 0x86, 'not without its password');
is(reason($s->raw->login(client_id => 'd1', user => 'acme/d1', password => '')), 0x86, 'nor with an empty one');
is(reason($s->raw->login(client_id => 'nameless')), 0, 'without a name one is anonymous as before');
my $empty = $s->raw;
$empty->send_raw($empty->connect_packet(client_id => ''));
like(FleetlogTest::Mqtt::property($empty->expect('CONNACK'), 18), qr/^auto-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/, 'an assigned client identifier');

# ---- refused as Mosquitto does, and sessions for ever ----
$s->set_conf('fleetlog.mqtt_dialect' => 'mosquitto', 'fleetlog.max_session_expiry' => 2147483647);
FleetlogTest::wait_until(sub { reason($s->raw->login(client_id => 'named', user => 'fritz', password => 'secret')) == 0x87 }, 'dialect mosquitto');
is(reason($s->raw(version => 4)->login(client_id => 'named', user => 'fritz', password => 'secret')), 5, 'mosquitto: return code 5 for a wrong name');
$c = client('c');
$c->send_hex('82 0a 0000 00 0004 74657374 00');
is($c->ending, '0x81', 'mosquitto: 0x81 for packet identifier 0 in SUBSCRIBE');
$c = client('c');
$c->send_hex('a2 09 0000 00 0004 74657374');
is($c->ending, '0x81', 'and in UNSUBSCRIBE');
for my $forever (4294967294, 4294967295)
{
    is(FleetlogTest::Mqtt::property(client('forever', clean => 0, properties => [ [ 17, $forever ] ])->{connack}, 17), undef, "the greatest limit is none: $forever seconds");
    is($s->sql("SELECT extract(epoch FROM expiry) FROM fleetlog.stat_session WHERE client_id = 'forever'"), "$forever.000000", 'and so it is kept');
}
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
