# M1, F: keep alive at one and a half times the interval, silent peers and slow ones.  Cases O54 to O56 and O-I.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time usleep);
use FleetlogTest;

my $s = FleetlogTest->new('keepalive');
$s->fleet(devices => 3);
my $listener = $s->device('d1', client_id => 'listener', keep_alive => 0);
$listener->subscribe([ [ 'acme/d1/#', 1 ] ]);
# A second client of the same device that only receives: what it gets must not keep it alive (O-I).
my $receiver = $s->device('d1', client_id => 'receiver', keep_alive => 2);
$receiver->subscribe([ 'acme/d1/noise' ]);
my $silent = $s->device('d1', client_id => 'silent', keep_alive => 2, will => { topic => 'acme/d1/will', payload => 'gone', qos => 1 });
my $old = $s->device('d1', client_id => 'old', keep_alive => 2, version => 4);
my $pinging = $s->device('d2', client_id => 'pinging', keep_alive => 2);
my $untimed = $s->device('d3', client_id => 'untimed', keep_alive => 0);
my $noise = $s->device('d1', client_id => 'noise');
my $mute = $s->raw;
my $begin = time;
my (%ended, $slow);

# One byte of a PINGREQ now and then is not a packet, and neither is a peer that never says anything.
while (time - $begin < 8)
{
    for my $pair ([ silent => $silent ], [ old => $old ], [ receiver => $receiver ], [ pinging => $pinging ], [ untimed => $untimed ])
    {
        my ($name, $c) = @$pair;
        next if $ended{$name};
        my $p = $c->read_packet(0.01);
        if (defined $p && !ref $p) { $ended{$name} = [ time - $begin, $ended{"$name reason"} // 'closed' ]; }
        elsif (ref $p && $p->{name} eq 'DISCONNECT') { $ended{"$name reason"} = sprintf '0x%02X', $p->{reason}; }
    }
    $pinging->send_hex('c000') if !$slow || time - $slow > 1;
    if (!$slow || time - $slow > 1) { $noise->publish('acme/d1/noise', 'n'); $slow = time; }
}
for my $name (qw(silent old receiver))
{
    ok($ended{$name}, "$name: closed") or next;
    cmp_ok($ended{$name}[0], '>', 2.5, "O55: $name lives longer than 1 x");
    cmp_ok($ended{$name}[0], '<', 5, "O56: $name is gone by about 1.5 x");
}
is($ended{silent}[1], '0x8D', 'O55: 5.0 is told 0x8D') if $ended{silent};
is($ended{old}[1], 'closed', '3.1.1 is just closed') if $ended{old};
ok(!$ended{pinging}, 'O54: one that pings stays');
ok(!$ended{untimed}, 'keep alive 0 never ends');
my @m = grep { $_->{topic} eq 'acme/d1/will' } $listener->messages(1 + 20, 1);
is(scalar @m, 1, 'the will of the silent one is published');
like($mute->ending(60), qr/^closed$/, 'a peer that says nothing is closed in time');

# One byte at a time is slow but legal, while the CONNECT timeout lasts; others are not disturbed.
my $bytes = $s->raw;
my $connect = $bytes->connect_packet(client_id => 'bytewise', user => 'acme/d2', password => 'pw-d2');
for my $byte (split //, $connect) { $bytes->send_raw($byte); usleep(5000); }
is($bytes->expect('CONNACK')->{reason}, 0, 'a CONNECT in single bytes is understood');
for my $byte (split //, $bytes->publish_packet('acme/d2/t', 'bytewise', qos => 1, pid => 9)) { $bytes->send_raw($byte); usleep(5000); }
is($bytes->expect('PUBACK')->{pid}, 9, 'a PUBLISH too');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
