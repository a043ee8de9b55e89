# The checker of the chaos test objects when it should: the library under test was built with a fault on purpose, which
# FLEETLOG_PLANTED names (script/test --long builds each).  A checker that finds nothing in three rounds fails this test.
BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} //= 60 }    # a server that does not come back is a find, not a mishap
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Nemesis;

plan skip_all => 'no fault is planted in this build' unless $ENV{FLEETLOG_PLANTED};

# Redo checks itself where it is told to; here the checker has to find out alone, unless that check is what is checked.
my $conf = $ENV{FLEETLOG_PLANTED} eq 'BROKEN_MASK' ? '' : "wal_consistency_checking = ''\n";
my $nemesis = FleetlogTest::Nemesis->new(seed => 7, conf => $conf);
my @faults;
for my $n (1 .. 3)
{
    @faults = eval { $nemesis->round($n, disturb => ['checkpoint'], blow => [ 'cut_power', 'all' ]) };
    push @faults, "died: $@" if $@;
    note(join '; ', @{ $nemesis->{story} });
    last if @faults;
}
diag("$ENV{FLEETLOG_PLANTED}: the checker says: " . join "\n", map { substr $_, 0, 300 } @faults);
if ($conf eq '')
{
    my $log = join '', map { PostgreSQL::Test::Utils::slurp_file($_->node->logfile) } @$nemesis{qw(server standby)};
    like($log, qr/inconsistent page found/, 'and the server says so');
}
isnt(scalar @faults, 0, "$ENV{FLEETLOG_PLANTED} is found");
# They may be in any state.
$_->kill9 for grep { $_ && defined $_->node->{_pid} } @$nemesis{qw(standby server)};
done_testing();
