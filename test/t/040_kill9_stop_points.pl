# L12: kill -9 of the postmaster under QoS 1 load while a process stands at each of the points that matter: nothing
# acknowledged or delivered is missing afterwards, offsets are dense, time never steps back, no half transaction.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Load;

my $rounds = $ENV{FLEETLOG_ROUNDS} || 3;
# Points of appender and flusher send everything their way; those of a door stop one that writes by itself.
my @points = qw(appender_after_write appender_after_commit flusher_before_flush flusher_before_publish
  door_after_write door_after_commit door_before_flush door_before_ack);
# Consistency checks make recovery prove itself.  The reload that sets a stop point makes the WAL writer write, so an
# acknowledgement that came too early is found by 041 and 020, not here.
my $s = FleetlogTest->new('chaos', conf => "wal_consistency_checking = 'all'\n");
$s->fleet(shards => 2, devices => 3);
my $load = FleetlogTest::Load->new($s, devices => 3, run => 'c');

# SQL writes ten records a transaction beside the devices, so that a torn transaction would show.  The short sleep is
# where a backend notices that its postmaster is gone, and it leaves the shards to the devices now and then.
my $ten = <<'SQL';
DO $$
BEGIN
    FOR i IN 1 .. 100000 LOOP
        PERFORM fleetlog.append('telemetry', 'k' || i, convert_to('ten/RUN/' || i, 'UTF8')) FROM generate_series(1, 10);
        COMMIT;
        PERFORM pg_sleep(0.02);
    END LOOP;
END $$;
SQL

for my $round (1 .. $rounds)
{
    for my $point (@points)
    {
        my $label = "round $round, $point";
        $load->connect_all;
        (my $sql = $ten) =~ s/RUN/$round-$point/;
        my $writer = $s->start_sql($sql);
        my $before = $load->acked;
        $load->pump($FleetlogTest::TIMEOUT, sub { $load->acked > $before + 30 });
        cmp_ok(scalar $load->acked, '>', $before, "$label: acknowledgements flow");
        $s->stop_points($point);
        my $probe = "SELECT count(*) FROM fleetlog.stat_worker WHERE stop_point = '$point'";
        my $checked = 0;
        $load->pump($FleetlogTest::TIMEOUT, sub { (++$checked % 5) == 0 && $s->sql($probe) > 0 });
        cmp_ok($s->sql($probe), '>', 0, "$label: a process stands there");
        $load->pump(0.3);
        $s->kill9;
        $load->cut_off;
        eval { $s->finish_sql($writer) };
        $s->set_conf();
        $s->start_after_crash;
        my @lost = $s->missing_payloads('telemetry', $load->acked);
        is(scalar @lost, 0, "$label: nothing acknowledged is missing") or diag(join ' ', @lost[ 0 .. ($#lost > 9 ? 9 : $#lost) ]);
        my @unseen = $s->missing_payloads('telemetry', $load->delivered);
        is(scalar @unseen, 0, "$label: nothing delivered is missing");
        is($s->density_faults, '', "$label: offsets dense, time in order");
        is($s->sql(<<'SQL'), '', "$label: no half transaction");
SELECT payload, count(*) FROM telemetry WHERE fleetlog.text(payload) LIKE 'ten/%' GROUP BY payload HAVING count(*) <> 10 LIMIT 5
SQL
    }
}
is($s->sql(q(SELECT fleetlog.tail('telemetry', 0) + fleetlog.tail('telemetry', 1) = count(*) FROM telemetry)), 't', 'the tails say what is there');
note('acknowledged ' . scalar($load->acked) . ', delivered ' . scalar($load->delivered));
is($s->crashes, '', 'no other crash');
$s->node->stop;
done_testing();
