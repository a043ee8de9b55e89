# M10: whole kinds of what public cases saw one of: each type of packet where it has no business, each property twice or where
# it does not belong, each text that is no UTF-8.  Cases O03 to O07, O09, O10.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('packets', conf => "fleetlog.mqtt_dialect = strict\n");
$s->fleet(devices => 2);
my $witness = $s->device('d2');

sub str { return FleetlogTest::Mqtt::str(@_); }
sub varlen { return FleetlogTest::Mqtt::varlen(@_); }
sub packet { return FleetlogTest::Mqtt::packet(@_); }
# A block of properties that are given as bytes.
sub block { my $all = join '', @_; return varlen(length $all) . $all; }

# How a connection ends that sends these bytes: logged in with that version, or not at all (0).
sub ending
{
    my ($version, $bytes) = @_;
    my $c = $version ? $s->device('d1', version => $version) : $s->raw;
    $c->send_raw($bytes);
    my $end = $c->ending;
    $c->close;
    return $end;
}
# The names of those whose ending is another than wanted.
sub wrong
{
    my ($wanted, $version, %bytes) = @_;
    my @wrong = map { my $end = ending($version, $bytes{$_}); $end =~ $wanted ? () : "$_: $end" } sort keys %bytes;
    $witness->ping;
    return join ', ', @wrong;
}

# ---- O04, O05: types of packets ----

my %packets = (
    CONNACK => "\x20\x02\0\0", PUBLISH => packet(0x30, str('acme/d1/t') . 'x'), PUBACK => "\x40\x02\0\1", PUBREC => "\x50\x02\0\1", PUBREL => "\x62\x02\0\1", PUBCOMP => "\x70\x02\0\1",
    SUBSCRIBE => packet(0x82, "\0\1" . str('acme/d1/#') . "\0"), SUBACK => "\x90\x03\0\1\0", UNSUBSCRIBE => packet(0xA2, "\0\1" . str('acme/d1/#')), UNSUBACK => "\xb0\x02\0\1",
    PINGREQ => "\xc0\0", PINGRESP => "\xd0\0", DISCONNECT => "\xe0\0", AUTH => "\xf0\0", 'type 0' => "\0\0");
is(wrong(qr/^closed$/, 0, %packets), '', 'O04: whatever comes before CONNECT is not answered, and closed');
is(wrong(qr/^closed$/, 0, map { ("$_ in two packets" => $packets{$_} . $packets{PINGREQ}) } keys %packets), '', 'O04: nor what comes with it');
my %of_server = (
    CONNACK => "\x20\x03\0\0\0", SUBACK => "\x90\x04\0\1\0\0", UNSUBACK => "\xb0\x04\0\1\0\0", PINGRESP => "\xd0\0", 'DISCONNECT that only a server sends' => "\xe0\x02\x8e\0");
is(wrong(qr/^0x82$/, 5, %of_server), '', 'O05: 5.0: packets that only a server sends');
is(wrong(qr/^0x8[12]$/, 5, map { ("short $_" => substr($_ eq 'PINGRESP' ? "\xd1\0" : $of_server{$_}, 0, 1) . "\0") } grep { !/DISCONNECT/ } keys %of_server), '', 'O05: 5.0: also cut short');
is(wrong(qr/^closed$/, 4, CONNACK => "\x20\x02\0\0", SUBACK => "\x90\x03\0\1\0", UNSUBACK => "\xb0\x02\0\1", PINGRESP => "\xd0\0", AUTH => "\xf0\0", 'type 0' => "\0\0", 'short CONNACK' => "\x20\0"), '',
    'O05: 3.1.1: packets that only a server sends, and none at all');

# ---- O03, O07: properties ----

# An encoded example of each.
my %property = (
    1 => "\1\1", 2 => "\2\0\0\0\5", 3 => "\3" . str('a'), 8 => "\x08" . str('a'), 9 => "\x09" . str('a'), 11 => "\x0b\1", 17 => "\x11\0\0\0\5", 18 => "\x12" . str('a'), 19 => "\x13\0\5",
    21 => "\x15" . str('SCRAM-SHA-256'), 22 => "\x16" . str('n,,n=d1,r=x'), 23 => "\x17\1", 24 => "\x18\0\0\0\5", 25 => "\x19\1", 26 => "\x1a" . str('a'), 28 => "\x1c" . str('a'), 31 => "\x1f" . str('a'),
    33 => "\x21\0\5", 34 => "\x22\0\5", 35 => "\x23\0\1", 36 => "\x24\1", 37 => "\x25\1", 38 => "\x26" . str('n') . str('v'), 39 => "\x27\0\0\4\0", 40 => "\x28\1", 41 => "\x29\1", 42 => "\x2a\1");
# Where each may be; a client's PUBLISH may have no identifier of a subscription.
my %allowed = (
    CONNECT => [ 17, 21, 22, 23, 25, 33, 34, 38, 39 ], will => [ 1, 2, 3, 8, 9, 24, 38 ], PUBLISH => [ 1, 2, 3, 8, 9, 35, 38 ], SUBSCRIBE => [ 11, 38 ], UNSUBSCRIBE => [38],
    PUBACK => [ 31, 38 ], PUBREC => [ 31, 38 ], PUBREL => [ 31, 38 ], PUBCOMP => [ 31, 38 ], DISCONNECT => [ 17, 31, 38 ], AUTH => [ 21, 22, 31, 38 ]);
sub connect_with
{
    my ($own, $will) = @_;
    return packet(0x10, str('MQTT') . "\5" . chr(0xC2 | ($will ? 4 : 0)) . "\0\x3c" . block(@$own) . str('id') . ($will ? block(@$will) . str('acme/d1/w') . str('x') : '') . str('acme/d1') . str('pw-d1'));
}
sub with
{
    my ($where, @p) = @_;
    return connect_with(\@p) if $where eq 'CONNECT';
    return connect_with([], \@p) if $where eq 'will';
    return packet(0x32, str('acme/d1/t') . "\0\7" . block(@p) . 'x') if $where eq 'PUBLISH';
    return packet(0x82, "\0\1" . block(@p) . str('acme/d1/#') . "\0") if $where eq 'SUBSCRIBE';
    return packet(0xA2, "\0\1" . block(@p) . str('acme/d1/#')) if $where eq 'UNSUBSCRIBE';
    return packet(0xE0, "\0" . block(@p)) if $where eq 'DISCONNECT';
    return packet(0xF0, "\x18" . block(@p)) if $where eq 'AUTH';
    return packet({ PUBACK => 0x40, PUBREC => 0x50, PUBREL => 0x62, PUBCOMP => 0x70 }->{$where}, "\0\1\0" . block(@p));
}
for my $where (sort keys %allowed)
{
    my $version = $where =~ /^(?:CONNECT|will)$/ ? 0 : 5;
    my $refused = $version ? qr/^0x8[12]$/ : qr/^(?:0x8[12]|closed)$/;
    my %may = map { $_ => 1 } @{ $allowed{$where} };
    # Authentication Data needs its method.
    my %twice = map { ("property $_" => with($where, ($_ == 22 ? $property{21} : ()), $property{$_}, $property{$_})) } grep { $_ != 38 } @{ $allowed{$where} };
    is(wrong($version ? qr/^0x82$/ : qr/^(?:0x82|closed)$/, $version, %twice), '', "O03: $where: a property that may be there once, twice") if %twice;
    my %foreign = map { ("property $_" => with($where, $property{$_})) } grep { !$may{$_} && !($where eq 'PUBLISH' && $_ == 11) } keys %property;
    is(wrong($refused, $version, %foreign), '', ($where eq 'will' ? 'O07' : 'O03') . ": $where: properties of other packets");
    is(wrong($refused, $version, map { ("number $_" => with($where, chr($_) . "\1")) } 0, 4, 5, 43, 127), '', "O03: $where: properties that are none");
}

# ---- O06: topics that are empty ----

is(wrong(qr/^0x8[12]$/, 5, SUBSCRIBE => packet(0x82, "\0\1\0" . str('') . "\0"), UNSUBSCRIBE => packet(0xA2, "\0\1\0" . str('')), PUBLISH => packet(0x32, str('') . "\0\1\0x"),
        'response topic' => packet(0x30, str('acme/d1/t') . block("\x08" . str('#')) . 'x')), '', 'O06: 5.0: empty topics and filters');
is(wrong(qr/^closed$/, 4, SUBSCRIBE => packet(0x82, "\0\1" . str('') . "\0"), UNSUBSCRIBE => packet(0xA2, "\0\1" . str('')), PUBLISH => packet(0x32, str('') . "\0\1x")), '', 'O06: 3.1.1: likewise');
for my $version (4, 5)
{
    my $c = $s->raw(version => $version);
    is(wrong(qr/^(?:closed|0x8[125]|0x90)$/, 0, 'empty will topic' => $c->connect_packet(client_id => 'w', user => 'acme/d1', password => 'pw-d1', will => { topic => '', payload => 'x' }),
            'will with a wildcard' => $c->connect_packet(client_id => 'w', user => 'acme/d1', password => 'pw-d1', will => { topic => 'acme/d1/#', payload => 'x' })), '',
        "O06: version $version: topics of wills");
}

# ---- O09, O10: texts ----

my %bad = ('FF' => "a\xff", 'U+0000' => "a\0b", 'a surrogate' => "\xed\xbf\xbf", 'an overlong form' => "\xe0\x80\xaf", 'a cut-off character' => "\xf0\x9f\x9a");
for my $how (sort keys %bad)
{
    my $bad = $bad{$how};
    my $c5 = $s->raw;
    my $c4 = $s->raw(version => 4);
    my @me = (client_id => 'u', user => 'acme/d1', password => 'pw-d1');
    my %connect = (
        'client id' => $c5->connect_packet(@me, client_id => $bad), 'client id, 3.1.1' => $c4->connect_packet(@me, client_id => $bad),
        'user name' => $c5->connect_packet(@me, user => $bad), 'user name, 3.1.1' => $c4->connect_packet(@me, user => $bad),
        'will topic' => $c5->connect_packet(@me, will => { topic => $bad, payload => 'x' }), 'will topic, 3.1.1' => $c4->connect_packet(@me, will => { topic => $bad, payload => 'x' }),
        'method' => connect_with([ "\x15" . str($bad) ]), 'user property' => connect_with([ "\x26" . str('n') . str($bad) ]), 'name of a user property' => connect_with([ "\x26" . str($bad) . str('v') ]),
        map { ("will property $_->[0]" => connect_with([], [ chr($_->[0]) . $_->[1] ])) } [ 3, str($bad) ], [ 8, str($bad) ], [ 38, str('n') . str($bad) ], [ 38, str($bad) . str('v') ]);
    is(wrong(qr/^(?:closed|0x8[125])$/, 0, %connect), '', "O09: $how in texts of CONNECT");
    my %texts = (
        'topic' => packet(0x30, str($bad) . "\0x"), 'filter' => packet(0x82, "\0\1\0" . str($bad) . "\0"), 'filter to unsubscribe' => packet(0xA2, "\0\1\0" . str($bad)),
        'shared filter' => packet(0x82, "\0\1\0" . str("\$share/g/$bad") . "\0"), 'share name' => packet(0x82, "\0\1\0" . str("\$share/$bad/t") . "\0"),
        (map { my $where = $_; ("user property of $where" => with($where, "\x26" . str('n') . str($bad)), "name of one of $where" => with($where, "\x26" . str($bad) . str('v'))) } grep { !/CONNECT|will/ || /DIS/ } keys %allowed),
        (map { ("reason string of $_" => with($_, "\x1f" . str($bad))) } qw(PUBACK PUBREC PUBREL PUBCOMP DISCONNECT AUTH)),
        'content type' => with('PUBLISH', "\x03" . str($bad)), 'response topic' => with('PUBLISH', "\x08" . str($bad)), 'method of AUTH' => with('AUTH', "\x15" . str($bad)));
    is(wrong(qr/^0x8[12]$/, 5, %texts), '', "O10: $how in texts of other packets");
    is(wrong(qr/^closed$/, 4, topic => packet(0x30, str($bad) . 'x'), filter => packet(0x82, "\0\1" . str($bad) . "\0"), 'filter to unsubscribe' => packet(0xA2, "\0\1" . str($bad))), '', "O10: 3.1.1: $how");
}
# What is bytes may be any.
my $c = $s->device('d1', client_id => 'bytes');
is($c->publish_acked('acme/d1/bytes', "\0\xff", properties => [ [ 9, "\0\xff" ] ]), 0, 'O10: payload and correlation data may be any bytes');
is($s->sql("SELECT count(*) FROM telemetry WHERE key <> 'acme/d1/bytes' AND payload <> 'x'"), 0, 'nothing else was stored');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
