# D3, D6: replay over many readings: every decision comes out again, progress is shown, it can be cancelled and ended in the
# middle, its memory does not grow with readings, it works on a standby; when readings were trimmed, copies still come out,
# references are gone, and pins keep what they pin.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

# Of 20,000 readings all records would be 60 MB.
my $n = $ENV{FLEETLOG_LONG} ? 1_000_000 : 20_000;
my $most_kb = 30 * 1024;
my $s = FleetlogTest->new('replay_size', no_wait => 1, conf => "fleetlog.max_xids_per_second = 0\nfleetlog.mqtt_listen = ''\nshared_buffers = 128MB\nfsync = off\n");
my $top = __FILE__ =~ s{test/t/[^/]*$}{}r;

sub verdicts
{
    my ($loop, $more) = @_;
    return "SELECT string_agg(verdict || ' ' || n, ', ' ORDER BY verdict) FROM (SELECT verdict, count(*) AS n FROM fleetlog.replay('$loop'" . ($more // '') . ') GROUP BY 1) x';
}

$s->node->command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-v', "n=$n", '-d', $s->node->connstr('fleetlog'), '-f', "${top}test/bench/replay_setup.sql" ], "$n readings and their records");
is($s->sql(verdicts('sparse')), 'same ' . $n / 100, 'decisions without a model come out again');

# ---- memory ----

my $most = 0;
my $dense = $s->start_sql(verdicts('dense'));
$s->wait_for("SELECT count(*) FROM fleetlog.stat_replay WHERE loop = 'dense'", 1, 'the replay to begin');
my $pid = $s->sql('SELECT pid FROM fleetlog.stat_replay');
FleetlogTest::wait_until(sub {
    open my $f, '<', "/proc/$pid/status" or return 1;
    my ($anon) = join('', <$f>) =~ /^RssAnon:\s+(\d+) kB/m;
    close $f;
    $most = $anon if ($anon // 0) > $most;
    return 0;
}, 'the replay to end', 600);
is(($s->finish_sql($dense))[1], "same $n\n", 'decisions with recorded answers come out again');
cmp_ok($most, '<', $most_kb, "its process took $most kB");

# ---- progress, cancel, end ----

$s->sql(<<'SQL');
CREATE FUNCTION slow(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE x text := 'x';
BEGIN
	FOR i IN 1 .. 20000 LOOP x := md5(x); END LOOP;
	RETURN NULL;
END $$;
SQL
for my $how (['pg_cancel_backend', qr/canceling statement due to user request/], ['pg_terminate_backend', qr/terminating connection/])
{
    my $run = $s->start_sql("SELECT count(*) FROM fleetlog.replay('sparse', policy => 'slow'::regproc)");
    $s->wait_for("SELECT loop = 'sparse' AND phase = 'replaying' AND readings_total = $n AND readings_done BETWEEN 1 AND $n - 1 AND database = 'fleetlog' FROM fleetlog.stat_replay", 't', 'a replay in the view');
    $s->sql("SELECT $how->[0](pid) FROM fleetlog.stat_replay");
    my ($rc, undef, $err) = $s->finish_sql($run);
    like($err, $how->[1], "$how->[0] ends it in the middle");
    $s->wait_for('SELECT count(*) FROM fleetlog.stat_replay', 0, 'it to be gone from the view');
}

# ---- a standby ----

my $standby = $s->new_standby('replay_standby');
$standby->node->start;
$s->catch_up($standby);
is($standby->sql_on_standby(verdicts('sparse')), 'same ' . $n / 100, 'a standby replays, too');
$standby->node->stop;

# ---- evidence ----

$s->sql(<<SQL);
SELECT fleetlog.create_loop('reference', 'replay_source', 'replay_sparse'::regproc, 'm', '1', positions => '{}', evidence => 'reference'), fleetlog.pause_loop('reference');
SELECT count(fleetlog.append('reference_decision', key, convert_to((j || jsonb_build_object('reading', (j -> 'reading') - 'key' - 'payload'))::text, 'UTF8'))) FROM sparse_decision, fleetlog.json(payload) j;
UPDATE fleetlog.loop_position SET log_offset = $n WHERE loop = 'reference';
SELECT fleetlog.create_loop('pinned', 'replay_source', 'replay_sparse'::regproc, 'm', '1', positions => '{}', evidence => 'pin'), fleetlog.pause_loop('pinned');
SQL
is($s->sql(verdicts('reference')), 'same ' . $n / 100, 'a loop that refers to its readings');
is($s->sql("SELECT reason FROM fleetlog.stream_hold"), 'evidence of loop "pinned"', 'the view names the loop');
like($s->sql_error("SELECT fleetlog.trim_head('replay_source', 0, 10, NULL)"), qr/LF108: records of shard 0.*evidence of loop "pinned"/s, 'so does the refusal of a trim');
$s->sql("SELECT fleetlog.drop_loop('pinned')");
is($s->sql("SELECT fleetlog.trim_head('replay_source', 0, $n / 2, NULL)"), $n / 2, 'the pin ends with the loop');
is($s->sql(verdicts('sparse')), 'same ' . $n / 100, 'copies still come out the same');
is($s->sql(verdicts('reference')), 'reading gone ' . $n / 200 . ', same ' . $n / 200, 'references are gone, never missing');
is($s->sql("SELECT count(*) FROM fleetlog.replay('reference') WHERE verdict = 'reading gone' AND decision IS NULL"), 0, 'each with its decision');

is($s->crashes, '', 'no process crashed');
done_testing();
