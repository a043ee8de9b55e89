# L3, L5, L12, M4: whatever happens to a server under load (kill -9 of any process at chosen points and at random, power cuts that
# lose or tear what was not flushed, a full disk, held shards and snapshots, a stepping clock, more shards, a standby in
# trouble), nothing that was acknowledged is lost, no offset is missing or given twice, and a standby is equal byte for byte.
#
# FLEETLOG_CHAOS_ROUNDS (3) rounds from FLEETLOG_FIRST_ROUND (1) on, with FLEETLOG_SEED.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Nemesis;

my $rounds = $ENV{FLEETLOG_CHAOS_ROUNDS} || 3;
my $first = $ENV{FLEETLOG_FIRST_ROUND} || 1;
my $seed = $ENV{FLEETLOG_SEED} || int(rand(1e6));
diag("FLEETLOG_SEED=$seed repeats this choice of misfortunes");

my $nemesis = FleetlogTest::Nemesis->new(seed => $seed);
for my $n ($first .. $first + $rounds - 1)
{
    my @faults = eval { $nemesis->round($n, pages => $n % 10 == 0) };
    push @faults, "died: $@" if $@;
    my $story = join '; ', @{ $nemesis->{story} };
    is(join("\n", @faults), '', $story);
    BAIL_OUT("after a fault nothing later means anything: FLEETLOG_SEED=$seed FLEETLOG_FIRST_ROUND=$n") if $@;
}
my @faults = $nemesis->finish;
is(join("\n", @faults), '', "the standby's pages are equal");
cmp_ok($nemesis->{truth}{pages_compared}, '>', 10, "$nemesis->{truth}{pages_compared} pages compared");
cmp_ok($nemesis->{truth}->acked, '>=', 100 * $rounds, 'devices had ' . $nemesis->{truth}->acked . ' acknowledgements');
cmp_ok($nemesis->{truth}{n_sql}, '>=', 100 * $rounds, "SQL writers had $nemesis->{truth}{n_sql}");
done_testing();
