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
my $before = time;
my $silent = $s->device('d1', client_id => 'silent', keep_alive => 2, will => { topic => 'acme/d1/will', payload => 'gone', qos => 1 });
my $old = $s->device('d1', client_id => 'old', keep_alive => 2, version => 4);
my $untimed = $s->device('d3', client_id => 'untimed', keep_alive => 0);
my $noise = $s->device('d1', client_id => 'noise');
my $mute = $s->raw;
my (%ended, $slow);

# What comes on a connection meanwhile, up to its end.
sub look_at
{
    my ($name, $c) = @_;
    return if $ended{$name};
    my $p = $c->read_packet(0.01);
    if (defined $p && !ref $p) { $ended{$name} = [ time - $before, $ended{"$name reason"} // 'closed' ]; }
    elsif (ref $p && $p->{name} eq 'DISCONNECT') { $ended{"$name reason"} = sprintf '0x%02X', $p->{reason}; }
    return;
}

# Packets to a client are none from it.
FleetlogTest::wait_until(
    sub {
        look_at(@$_) for [ silent => $silent ], [ old => $old ], [ receiver => $receiver ], [ untimed => $untimed ];
        if (!$slow || time - $slow > 1) { $noise->publish('acme/d1/noise', 'n'); $slow = time; }
        return $ended{silent} && $ended{old} && $ended{receiver};
    },
    'O56: those that say nothing to be closed');
# How much later than one and a half times it is, is the machine's affair, and told; that it is not sooner than once is ours.
note(sprintf '%s: %.1f s after the first CONNECT, with a keep alive of 2 s', $_, $ended{$_}[0]) for qw(silent old receiver);
cmp_ok($ended{$_}[0], '>', 2, "O55: $_ lives longer than 1 x") for qw(silent old);
is($ended{receiver}[1], '0x8D', 'O-I: what it is sent keeps nobody alive');
is($ended{silent}[1], '0x8D', 'O55: 5.0 is told 0x8D');
is($ended{old}[1], 'closed', '3.1.1 is just closed');
my $m;
1 while ref($m = $listener->read_packet) && $m->{topic} ne 'acme/d1/will';
is(ref $m ? $m->{payload} : 'no will', 'gone', 'the will of the silent one is published');

# One that pings stays for more than twice as long as one that does not.  Where this test itself was held up for longer than the
# keep alive, it proves nothing either way, and is made again.
my $stayed = 0;
for my $keep_alive (2, 2, 4, 8, 16)
{
    my $pinging = $s->device('d2', client_id => "pinging$keep_alive", keep_alive => $keep_alive);
    my $begin = time;
    my $last = $begin;
    my $gap = 0;
    while (time - $begin < 3.5 * $keep_alive && !$ended{pinging})
    {
        look_at(pinging => $pinging);
        look_at(untimed => $untimed);
        next if time - $last < $keep_alive / 4;
        $gap = time - $last if time - $last > $gap;
        $pinging->send_hex('c000');
        $last = time;
    }
    $stayed = 1 if !delete $ended{pinging};
    $pinging->close;
    last if $stayed;
    note(sprintf 'closed with a keep alive of %d s; the longest pause between two pings was %.1f s', $keep_alive, $gap);
}
ok($stayed, 'O54: one that pings stays');
ok(!$ended{untimed}, 'keep alive 0 never ends');
like($mute->ending, qr/^closed$/, 'a peer that says nothing is closed in time');

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
