# M1: maximum packet size and receive maximum, both ways.  Cases O17, O21 to O23, and what CONNACK announces.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('limits', conf => "fleetlog.max_connections = 30\nfleetlog.server_reference = 'standby.example:1883'\n");
$s->fleet(devices => 2);

# What is not built yet is announced, and refused by its reason code.
my $c = $s->raw;
my $ack = $c->login(client_id => 'c', user => 'acme/d1', password => 'pw-d1', properties => [ [ 33, 3 ], [ 17, 3600 ] ]);
is($ack->{reason}, 0, 'connected');
my %p = map { $_->[0] => $_->[1] } @{ $ack->{properties} };
is($p{36}, undef, 'QoS 2 is available');
is($p{37}, 0, 'Retain Available 0');
is($p{42} // 1, 1, 'shared subscriptions are available');
is($p{17}, 3600, 'the session gets the expiry that it asked for');
is($p{40} // 1, 1, 'wildcards are available');
isnt($p{33} // 65535, 3, "O17: Receive Maximum is the server's own, not an echo");
is($ack->{session_present}, 0, 'no session present');
my $max = $p{39};
ok(defined $max, 'Maximum Packet Size is announced');

my $refused = $s->device('d1', client_id => 'retain');
$refused->publish('acme/d1/t', 'x', qos => 1, retain => 1);
my $got = $refused->read_packet;
ok(ref $got && $got->{reason} == 0x9A, 'retain is refused with 0x9A');
my $wish = $s->device('d1', client_id => 'wish');
is(join(',', $wish->subscribe([ [ 'acme/d1/t', 2 ] ])), '2', 'a wish for QoS 2 is granted');

# O22: the server's own limit, to the byte.
my $overhead = length($c->publish_packet('acme/d1/big', '', qos => 1, pid => 1));
# The remaining length of a packet of this size takes more bytes than that of an empty one.
my $grow = length(FleetlogTest::Mqtt::varlen($max - 5)) - 1;
my $exact = $max - $overhead - $grow;
is(length($c->publish_packet('acme/d1/big', 'x' x $exact, qos => 1, pid => 1)), $max, "a packet of exactly $max bytes");
is($c->publish_acked('acme/d1/big', 'x' x $exact), 0, 'O22: it is accepted');
is($s->sql("SELECT length(payload) FROM telemetry WHERE key = 'acme/d1/big'"), $exact, 'and stored');
$c->publish('acme/d1/big', 'x' x ($exact + 1), qos => 1);
is($c->ending, '0x95', 'O22: one byte more ends the connection');
is($s->device('d2')->publish_acked('acme/d2/t', 'x'), 0, 'others are served');

# O21, O23: what is too large for a subscriber vanishes silently, and holds no slot of its receive maximum.
my $small = $s->device('d1', client_id => 'small', properties => [ [ 39, 128 ], [ 33, 1 ] ]);
$small->subscribe([ [ 'acme/d1/s', 1 ] ]);
my $pub = $s->device('d1', client_id => 'pub');
my $base = length($small->publish_packet('acme/d1/s', '', qos => 1, pid => 1));
for my $size (127, 128, 129)
{
    is($pub->publish_acked('acme/d1/s', ('b' x ($size - $base - 1)) . $size % 10), 0, "published for a packet of $size bytes");
}
is($pub->publish_acked('acme/d1/s', 'x' x 5000), 0, 'published a large one');
is($pub->publish_acked('acme/d1/s', 'small'), 0, 'published a small one');
my @m = $small->messages(3);
is(join(' ', map { length $_->{raw} } @m[ 0, 1 ]), '127 128', 'O21: 127 and 128 bytes arrive, 129 do not');
is($m[2]{payload}, 'small', 'O23: the small one behind the large ones arrives');
ok($small->quiet(0.5), 'nothing else');

# O17: the client's receive maximum bounds what is under way to it.
my $slow = $s->device('d1', client_id => 'slow', properties => [ [ 33, 2 ] ]);
$slow->subscribe([ [ 'acme/d1/r', 1 ] ]);
is($pub->publish_acked('acme/d1/r', "n$_"), 0, "published n$_") for 1 .. 5;
my @first = ($slow->expect('PUBLISH'), $slow->expect('PUBLISH'));
is(join(',', map { $_->{payload} } @first), 'n1,n2', 'two come');
isnt($first[0]{pid}, $first[1]{pid}, 'with their own identifiers');
ok($slow->quiet(1), 'no third before an acknowledgement');
$slow->puback($first[0]{pid});
is($slow->expect('PUBLISH')->{payload}, 'n3', 'then the third');
$slow->puback($_) for $first[1]{pid};
is($slow->expect('PUBLISH')->{payload}, 'n4', 'and the fourth');

# A client that sends more than the server's receive maximum without waiting: it is told 0x93, or it never gets there.
SKIP:
{
    my $limit = $p{33} // 65535;
    skip('the receive maximum is too large to exceed here', 1) if $limit > 5000;
    $s->stop_points('flusher_before_publish');
    my $eager = $s->device('d2', client_id => 'eager');
    $eager->publish('acme/d2/t', "e$_", qos => 1, pid => $_) for 1 .. $limit + 1;
    is($eager->ending, '0x93', "more than $limit unacknowledged PUBLISH end with 0x93");
    $s->stop_points();
}

# M1: a client of 5.0 that finds no room, or whose server ends, is told where to go.
my (@crowd, $full);
while (@crowd <= 30 && !$full)
{
    my $one = $s->raw;
    my $answer = $one->login(client_id => 'crowd' . @crowd, user => 'acme/d1', password => 'pw-d1');
    $full = $answer if $answer->{reason} != 0;
    push @crowd, $one unless $full;
}
is($full->{reason}, 0x9C, 'fleetlog.max_connections: use another server');
is(FleetlogTest::Mqtt::property($full, 28), 'standby.example:1883', 'this one');
is($s->raw(version => 4)->login(client_id => 'old', user => 'acme/d1', password => 'pw-d1')->{reason}, 3, '3.1.1: unavailable');
(pop @crowd)->disconnect;
my $old;
FleetlogTest::wait_until(
    sub {
        $old = $s->raw(version => 4);
        return $old->login(client_id => 'old', user => 'acme/d1', password => 'pw-d1')->{reason} == 0;
    },
    'room for another', 10);
$s->node->stop('fast');
my $end;
while (ref($end = $crowd[0]->read_packet) && $end->{name} ne 'DISCONNECT') { }
is($end->{reason}, 0x9C, 'at shutdown: use another server');
is(FleetlogTest::Mqtt::property($end, 28), 'standby.example:1883', 'this one');
is($old->ending, 'closed', '3.1.1 is closed');
is($s->crashes, '', 'no crash');
done_testing();
