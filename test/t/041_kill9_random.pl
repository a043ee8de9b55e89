# L12, M4: kill -9 at random moments, of the postmaster or of one worker, under QoS 1 load: nothing acknowledged or
# delivered is missing, offsets are dense, time never steps back, and everything resumes by itself.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Load;

my $rounds = $ENV{FLEETLOG_ROUNDS} || 3;
my $seed = $ENV{FLEETLOG_SEED} || int(rand(1e9));
srand($seed);
note("FLEETLOG_SEED=$seed repeats this choice of moments");

my $s = FleetlogTest->new('random', conf => "wal_consistency_checking = 'all'\nrestart_after_crash = on\nwal_writer_delay = 10s\nwal_writer_flush_after = 1GB\n");
$s->fleet(shards => 3, devices => 4);
my $load = FleetlogTest::Load->new($s, devices => 4, window => 20, run => 'r', pad => 300);

for my $round (1 .. $rounds)
{
    for my $victim ('postmaster', 'appender', 'flusher', 'front_door')
    {
        my $label = "round $round, $victim";
        my $before = $load->acked;
        $load->connect_all;
        $load->pump($FleetlogTest::TIMEOUT, sub { $load->acked > $before });
        cmp_ok(scalar $load->acked, '>', $before, "$label: acknowledgements flow");
        $s->wait_for("SELECT count(*) > 0 FROM fleetlog.stat_worker WHERE kind = '$victim' AND pid IS NOT NULL", 't', "a process $victim") if $victim ne 'postmaster';
        my $pid = $victim eq 'postmaster' ? 0
          : $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = '$victim' AND pid IS NOT NULL ORDER BY random() LIMIT 1");
        my $old = $s->sql('SELECT pg_postmaster_start_time()::text || pid FROM pg_stat_activity WHERE backend_type = \'checkpointer\'');
        $load->pump(0.1 + rand(1.2));
        if ($victim eq 'postmaster') { $s->kill9; }
        else { kill 'KILL', $pid or die "kill $pid: $!"; }
        $load->cut_off;
        if ($victim eq 'postmaster') { $s->start_after_crash; }
        else
        {
            # The server restarts by itself; the checkpointer's pid tells the new life from the old one.
            FleetlogTest::wait_until(sub {
                my ($rc, $out) = $s->try_sql('SELECT pg_postmaster_start_time()::text || pid FROM pg_stat_activity WHERE backend_type = \'checkpointer\'');
                return $rc == 0 && $out ne '' && $out ne $old; }, 'the server to restart by itself', 60);
            $s->wait_for_mqtt;
        }
        my @lost = $s->missing_payloads('telemetry', $load->acked);
        is(scalar @lost, 0, "$label: nothing acknowledged is missing") or diag(join ' ', map { substr $_, 0, 12 } @lost[ 0 .. ($#lost > 9 ? 9 : $#lost) ]);
        my @unseen = $s->missing_payloads('telemetry', $load->delivered);
        is(scalar @unseen, 0, "$label: nothing delivered is missing");
        is($s->density_faults, '', "$label: offsets dense, time in order");
    }
}
note('acknowledged ' . scalar($load->acked) . ', delivered ' . scalar($load->delivered));
is(scalar(() = $load->refused), 0, 'no publish was refused');
is($s->crashes, '', 'no crash but ours');
$s->node->stop;
done_testing();
