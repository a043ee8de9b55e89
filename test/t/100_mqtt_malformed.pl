# M10: malformed packets and packets out of order get the specification's reason code and a closed connection; only the
# guilty connection ends, memory stays flat.  Cases O01 to O08, O44, O59 and O66 of the public bug reports.  The dialect is
# strict; what a lenient one bears is in 161_mqtt_dialect.pl.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('malformed', conf => "fleetlog.mqtt_dialect = strict\n");
$s->fleet(devices => 2);
my $witness = $s->device('d2');
my $life = "SELECT pg_postmaster_start_time(), pid, backend_start FROM pg_stat_activity WHERE backend_type = 'checkpointer'";
my $postmaster = $s->sql($life);

# After each case a client that did nothing wrong is still served.
sub bytes_end_with
{
    my ($name, $version, $hex, $expected) = @_;
    my $c = $s->device('d1', version => $version);

    $c->send_hex($hex);
    like($c->ending, $expected, $name);
    $witness->ping;
    return;
}

# The same before any CONNECT.
sub first_bytes_end_with
{
    my ($name, $hex, $expected) = @_;
    my $c = $s->raw;

    $c->send_hex($hex);
    like($c->ending, $expected, $name);
    $witness->ping;
    return;
}

my $malformed = qr/^0x81$/;
my $protocol = qr/^0x82$/;
my $either = qr/^0x8[12]$/;
my $closed = qr/^closed$/;
my $refused = qr/^(closed|0x8[0-9A-F])$/;

# O01: QoS 1 PUBLISH cut off after the topic (MQTT-2.2.1-3).
bytes_end_with('O01: PUBLISH without packet identifier', 5, '32 05 0003 612f62', $malformed);
bytes_end_with('O01: the same in 3.1.1', 4, '32 05 0003 612f62', $closed);
# O02: reserved flags of CONNECT.
first_bytes_end_with('O02: CONNECT with flags 1111', '1f 0f 0004 4d515454 04 02 000a 0003 636964', $refused);
first_bytes_end_with('O02: the same in 5.0', '1f 10 0004 4d515454 05 02 000a 00 0003 636964', $refused);
# O03: a property that may appear once, twice.
first_bytes_end_with('O03: Request Response Information twice', '10 14 0004 4d515454 05 02 000a 04 1901 1901 0003 636964', qr/^(0x82|closed)$/);
# O04: anything before CONNECT.
first_bytes_end_with('O04: PINGREQ first', 'c000', $closed);
first_bytes_end_with('O04: PUBLISH first', '30 05 0003 612f62', $closed);
# O05: packets that only a server sends.
bytes_end_with('O05: CONNACK from a client', 5, '20 03 000000', $protocol);
bytes_end_with('O05: cut-short CONNACK', 5, '20 00', $either);
bytes_end_with('O05: SUBACK from a client', 5, '90 04 0001 00 00', $protocol);
bytes_end_with('O05: PINGRESP from a client', 5, 'd000', $protocol);
bytes_end_with('O05: in 3.1.1', 4, '20 02 0000', $closed);
# O06: PUBLISH with an empty topic.
bytes_end_with('O06: empty topic in 3.1.1', 4, '30 02 0000', $closed);
bytes_end_with('O06: empty topic without alias', 5, '30 03 0000 00', $protocol);
# O44: subscription identifier from a client (MQTT-3.3.4-6).
bytes_end_with('O44: PUBLISH with a subscription identifier', 5, '30 08 0003 612f62 02 0b01', $protocol);
# O59: No Local on a shared subscription (MQTT-3.8.3-4).
{
    my $c = $s->device('d1');
    $c->send_hex('82 10 0001 00 000a' . unpack('H*', '$share/g/t') . '04');
    my $p = $c->read_packet;
    ok(ref $p && (($p->{name} eq 'DISCONNECT' && $p->{reason} == 0x82) || ($p->{name} eq 'SUBACK' && $p->{reasons}[0] == 0x9E)),
        'O59: No Local on a shared filter');
}

# Fixed header flags, lengths, identifiers, order.
bytes_end_with('SUBSCRIBE with flags 0', 5, '80 07 0001 00 0001 61 00', $malformed);
bytes_end_with('PINGREQ with flags', 5, 'c1 00', $malformed);
bytes_end_with('PUBACK with flags', 5, '41 02 0001', $malformed);
bytes_end_with('QoS 3', 5, '36 08 0003 612f62 0001 00', $malformed);
bytes_end_with('QoS 3 in 3.1.1', 4, '36 07 0003 612f62 0001', $closed);
bytes_end_with('packet identifier 0', 5, '32 08 0003 612f62 0000 00', $either);
bytes_end_with('SUBSCRIBE with identifier 0', 5, '82 07 0000 00 0001 61 00', $either);
bytes_end_with('SUBSCRIBE without filters', 5, '82 03 0001 00', $protocol);
bytes_end_with('SUBSCRIBE without filters in 3.1.1', 4, '82 02 0001', $closed);
bytes_end_with('UNSUBSCRIBE without filters', 5, 'a2 03 0001 00', $protocol);
bytes_end_with('SUBSCRIBE options with reserved bits', 5, '82 07 0001 00 0001 61 c0', $either);
bytes_end_with('SUBSCRIBE at QoS 3', 5, '82 07 0001 00 0001 61 03', $either);
bytes_end_with('retain handling 3', 5, '82 07 0001 00 0001 61 30', $protocol);
bytes_end_with('subscription identifier 0', 5, '82 09 0001 02 0b00 0001 61 00', $protocol);
bytes_end_with('unknown property', 5, '30 08 0003 612f62 02 7f01', $malformed);
bytes_end_with('property of another packet', 5, '30 0b 0003 612f62 05 1100000001', $either);
bytes_end_with('property length beyond the packet', 5, '30 06 0003 612f62 20', $malformed);
bytes_end_with('topic length beyond the packet', 5, '30 05 00ff 612f62', $malformed);
bytes_end_with('remaining length of five bytes', 5, '30 ff ff ff ff 01', $malformed);
bytes_end_with('second CONNECT', 5, '10 0d 0004 4d515454 05 02 000a 00 0000', $protocol);
# Its version is wrong, too, for which DISCONNECT has no code.
bytes_end_with('second CONNECT of another version', 5, '10 0d 0004 4d515454 09 02 000a 00 0000', $protocol);
bytes_end_with('topic with a wildcard', 5, '30 06 0003 612f23 00', qr/^0x(81|82|90)$/);
bytes_end_with('payload format indicator 2', 5, '30 08 0003 612f62 02 0102', $either);
bytes_end_with('AUTH where none was agreed', 5, 'f0 02 18 00', qr/^0x(82|8C)$/);
bytes_end_with('packet type 0', 5, '00 00', $malformed);
first_bytes_end_with('reserved connect flag', '10 10 0004 4d515454 05 03 000a 00 0003 636964', $refused);
first_bytes_end_with('will QoS 3', '10 15 0004 4d515454 04 1e 000a 0003 636964 0001 77 0001 78', $refused);
first_bytes_end_with('password without user in 3.1.1', '10 13 0004 4d515454 04 42 000a 0003 636964 0002 7077', $refused);
first_bytes_end_with('unknown protocol name', '10 0f 0004 4d515455 04 02 000a 0003 636964', qr/^(closed|0x84|0x01)$/);
first_bytes_end_with('unknown protocol level', '10 10 0004 4d515454 09 02 000a 00 0003 636964', qr/^(closed|0x84|0x01)$/);
first_bytes_end_with('an HTTP request', unpack('H*', "GET / HTTP/1.1\r\nHost: x\r\n\r\n"), $closed);
first_bytes_end_with('a TLS hello', '16030100a5010000a10303', $refused);

sub memory_of_doors
{
    my $sum = 0;
    for my $pid (split /\n/, $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'front_door' AND pid IS NOT NULL"))
    {
        my ($kb) = PostgreSQL::Test::Utils::slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+) kB/m;
        $sum += $kb // 0;
    }
    return $sum;
}

# O07: a will property of the wrong kind, over and over, in two rounds: the second must need no more than the first.
sub wrong_wills
{
    my $refusals = 0;
    for (1 .. 1000)
    {
        my $c = $s->raw;
        # CONNECT, clean start, will flag; will properties: Session Expiry Interval 1.
        $c->send_hex('10 1c 0004 4d515454 05 06 000a 00 0003 636964 05 1100000001 0001 77 0001 78');
        $refusals++ if $c->ending =~ /^(0x8[12]|closed)$/;
        $c->close;
    }
    return $refusals;
}
is(wrong_wills(), 1000, 'O07: will with Session Expiry is refused');
# What leaks grows in every round; what the doors keep for later use does not.
my ($memory, $grown);
for (1 .. 5)
{
    $memory = memory_of_doors();
    is(wrong_wills(), 1000, 'O07: and again');
    $grown = memory_of_doors() - $memory;
    last if $grown < 2048;
}
cmp_ok($grown, '<', 2048, 'O07: memory is flat');

# O66: 256 MB announced, nothing sent, on 200 connections.
$memory = memory_of_doors();
my @silent = map { my $c = $s->raw; $c->send_hex('10 ff ff ff 7f'); $c } 1 .. 200;
$witness->ping;
cmp_ok(memory_of_doors() - $memory, '<', 4096, 'O66: an announced length allocates nothing');
my $gone = grep { $_->ending =~ /^(closed|0x9[57])$/ } @silent;
is($gone, 200, 'O66: and such a connection ends');

# O08: one flipped byte in each valid packet, everywhere.
my $d1 = $s->device('d1');
my %valid = (
    connect => unpack('H*', $d1->connect_packet(client_id => 'm', user => 'acme/d1', password => 'pw-d1', will => { topic => 'acme/d1/w', payload => 'x' })),
    publish => unpack('H*', $d1->publish_packet('acme/d1/t', 'payload', qos => 1, pid => 7, properties => [ [ 38, 'n', 'v' ], [ 1, 1 ], [ 2, 60 ] ])),
    subscribe => '82 10 0001 02 0b05 0008' . unpack('H*', 'acme/d1/') . '01',
    unsubscribe => 'a2 0d 0001 00 0008' . unpack('H*', 'acme/d1/'),
    puback => '40 04 0001 00 00', disconnect => 'e0 02 00 00');
my ($mutations, $hung) = (0, 0);
srand(7);
for my $name (sort keys %valid)
{
    my $bytes = pack 'H*', $valid{$name} =~ s/\s+//gr;
    for my $at (0 .. length($bytes) - 1)
    {
        my $c = $name eq 'connect' ? $s->raw : $s->device('d1', client_id => "m$at");
        my $mutant = $bytes;
        substr($mutant, $at, 1) = chr(ord(substr $mutant, $at, 1) ^ (1 << int(rand 8)));
        $c->send_raw($mutant);
        $mutations++;
        $c->close;
    }
    $hung++ unless eval { $witness->ping };
}
cmp_ok($mutations, '>', 100, "O08: $mutations mutations");
is($hung, 0, 'O08: the witness was served after each kind');
is($s->device('d1')->publish_acked('acme/d1/t', 'alive'), 0, 'a device logs in and publishes after all that');
is($s->sql($life), $postmaster, 'the server never restarted, nor did its processes');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
