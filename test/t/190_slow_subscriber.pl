# M6, O3: a subscriber that does not read harms neither the publisher nor another subscriber; at QoS 0 its drops are
# counted, at QoS 1 it falls back to the log and loses nothing, in order and without duplicates.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time);
use FleetlogTest;

my $s = FleetlogTest->new('slow', conf => "fleetlog.workers = 1\n");
$s->fleet(shards => 1, devices => 1);

my $count = 20_000;
my $pad = 'x' x 500;
my $publisher = $s->device('d1', client_id => 'publisher');
my $quick = $s->device('d1', client_id => 'quick');
my $stalled0 = $s->device('d1', client_id => 'stalled0');
my $stalled1 = $s->device('d1', client_id => 'stalled1', properties => [ [ 33, 10 ] ]);
$quick->subscribe([ 'acme/d1/#' ]);
$stalled0->subscribe([ 'acme/d1/#' ]);
$stalled1->subscribe([ [ 'acme/d1/#', 1 ] ]);

sub memory
{
    my $pid = $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'front_door' AND pid IS NOT NULL");
    return PostgreSQL::Test::Utils::slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+) kB/m ? $1 : 0;
}

# A window of 15 unacknowledged PUBLISH; the quick subscriber is read on the way, the stalled ones are not.
sub publish_all
{
    my ($from, $to) = @_;
    my ($open, $next, $longest, $acked) = (0, $from, 0, 0);
    my $last = time;
    my @quick;

    while ($acked < $to - $from + 1)
    {
        while ($open < 15 && $next <= $to) { $publisher->publish('acme/d1/t', "$next $pad", qos => 1); $open++; $next++; }
        my $p = $publisher->read_packet;
        die 'no PUBACK' unless ref $p;
        if ($p->{name} eq 'PUBACK') { $open--; $acked++; $longest = time - $last if time - $last > $longest; $last = time; }
        if ($acked % 50 == 0)
        {
            $quick->fill;
            while (my ($first, $body) = $quick->cut) { push @quick, ($quick->decode($first, $body)->{payload} =~ /^(\d+)/)[0]; }
        }
    }
    until (@quick && $quick[-1] == $to)
    {
        my $p = $quick->read_packet;
        last unless ref $p;
        push @quick, ($p->{payload} =~ /^(\d+)/)[0];
    }
    return ($longest, \@quick);
}

my ($longest, $seen) = publish_all(1, 2000);
my $before = memory();
($longest, $seen) = publish_all(2001, $count);
is(scalar @$seen, $count - 2000, 'O-K: the quick subscriber gets every message meanwhile');
# The stalled ones have not read a byte up to here, so nobody has waited for them.
note(sprintf 'the publisher waited %.2f s at most for an acknowledgement', $longest);
cmp_ok(memory() - $before, '<', 8 * 1024, 'O-K: the front door keeps no backlog in memory');

# The QoS 1 subscriber wakes up: everything, once, in order, over the seam to live messages.
my @late;
my $live = 0;
while (@late < $count + 20)
{
    my $p = $stalled1->read_packet;
    last unless ref $p;
    next unless $p->{name} eq 'PUBLISH';
    $stalled1->puback($p->{pid});
    push @late, ($p->{payload} =~ /^(\d+)/)[0];
    # New messages come while it is still catching up, and after.
    if (@late == int($count * 0.9) && !$live) { $live = 1; $publisher->publish('acme/d1/t', ($count + $_) . " $pad", qos => 1) for 1 .. 20; }
}
is(scalar @late, $count + 20, 'QoS 1: nothing is lost');
my ($disorder) = grep { $late[$_] != $_ + 1 } 0 .. $#late;
is($disorder, undef, 'QoS 1: in order, without duplicates');

# The QoS 0 subscriber got what its queue held; the rest is counted as dropped.
my @some;
FleetlogTest::wait_until(
    sub {
        while (ref(my $p = $stalled0->read_packet(0.5))) { push @some, ($p->{payload} =~ /^(\d+)/)[0] if $p->{name} eq 'PUBLISH'; }
        return $s->sql("SELECT coalesce(sum(dropped), 0) FROM fleetlog.stat_connection WHERE client_id = 'stalled0'") + @some >= $count;
    },
    'all messages to have come or to be counted as dropped in stat_connection');
cmp_ok(scalar @some, '<', $count, 'QoS 0: some were dropped (' . scalar(@some) . ' came)');
cmp_ok(scalar @some, '>', 0, 'QoS 0: some came');
is(join(',', @some), join(',', sort { $a <=> $b } @some), 'QoS 0: in order');
$publisher->messages(0);
is($s->density_faults, '', 'offsets dense, time in order');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
