# D1, D2: kill -9 of the server and of the runner at every point of a turn and at random, and of the model that answers, the
# keeper and the dispatcher of commands: each reading is decided exactly once and in order, each request has one answer that counts, no command
# is sent under two ids, none is lost.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $rounds = $ENV{FLEETLOG_ROUNDS} || 3;
my @blows = map { [ split / / ] } ('server loop_appended', 'runner loop_after_commit', 'model', 'server loop_step_before_commit', 'runner loop_before_commit', 'keeper',
    'server loop_between_appends', 'runner loop_before_append', 'commands', 'server loop_step_after_commit', 'runner', 'model', 'runner loop_appended', 'server loop_after_commit',
    'keeper', 'runner loop_step_before_commit', 'server loop_before_commit', 'commands', 'server', 'runner loop_between_appends', 'server loop_before_append', 'runner loop_step_after_commit');
my $DEVICES = 5;

my $s = FleetlogTest->new('loopkill', conf => 'restart_after_crash = on');
$s->fleet(devices => $DEVICES, shards => 2);
# Even readings ask; the state counts the device's readings; every decision commands.
$s->sql(<<'SQL');
CREATE FUNCTION p(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	v int := (fleetlog.json(reading.payload) ->> 'v')::int;
	n int := coalesce((state ->> 'n')::int, 0);
BEGIN
	IF response IS NULL AND v % 2 = 0 THEN
		RETURN '{"ask": {}}';
	END IF;
	RETURN jsonb_build_object('decisions', jsonb_build_array(jsonb_build_object('v', v, 'n', n, 'x', response)),
		'commands', jsonb_build_array(jsonb_build_object('device', reading.device, 'name', 'set', 'payload', v, 'ttl', '10 min')), 'state', jsonb_build_object('n', n + 1));
END $$;
SELECT fleetlog.create_loop('valves', 'telemetry', 'p'::regproc, 'm', '1', max_attempts => 1000);
SQL
$s->wait_for("SELECT count(*) FROM fleetlog.stat_worker WHERE kind = 'runner'", 1, 'the runner');

# A model caller: leases, answers with a random number, forgets every third.
my $MODEL = q{DO $$ DECLARE r record; BEGIN FOR i IN 1 .. 400 LOOP
	FOR r IN SELECT * FROM fleetlog.next_request('valves', 3, '200 ms') LOOP IF random() < 0.7 THEN PERFORM fleetlog.answer(r.request, r.lease, to_jsonb(random())); END IF; END LOOP;
	COMMIT; PERFORM pg_sleep(0.01); END LOOP; END $$};
my $sent = 0;	# readings of each device

sub readings
{
    my ($n) = @_;
    my ($from, $to) = ($sent + 1, $sent + $n);
    $s->sql("SELECT count(fleetlog.append('telemetry', 'd' || d, convert_to('{\"v\": ' || v || '}', 'UTF8'), device => 'd' || d, tenant => 'acme')) FROM generate_series($from, $to) v, generate_series(1, $DEVICES) d");
    $sent = $to;
    return;
}

sub one_round
{
    my ($round) = @_;
    my ($whom, $point) = @{ $blows[ ($round - 1) % @blows ] };

    readings(10);
    my $model = $s->start_sql($MODEL);
    if (!$point)
    {
        select(undef, undef, undef, rand(0.5));
    }
    else
    {
        $s->stop_points($point);
        readings(2);
        $s->wait_stopped_at($point);
    }
    if ($whom eq 'server')
    {
        $s->set_conf;
        $s->kill9_and_start;
    }
    elsif ($whom eq 'model')
    {
        # Its session ends where it is, as it would at the next word to who is gone.
        $model->{run}->signal('KILL');
        $s->sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'DO %next_request%' AND pid <> pg_backend_pid()");
    }
    else
    {
        my $pid = $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = '$whom'");
        $s->set_conf;
        kill 'KILL', $pid;
        FleetlogTest::wait_until(sub { eval { $s->sql("SELECT count(*) FROM fleetlog.stat_worker WHERE kind = '$whom' AND pid <> $pid") } // 0 }, "the server and its $whom to be back");
    }
    eval { $s->finish_sql($model) };
    note("round $round: $whom at " . ($point // 'random'));
    return;
}
one_round($_) for 1 .. $rounds;

# What is left is answered by a model that lives.
$s->wait_for(q{WITH a AS (SELECT count(fleetlog.answer(request, lease, to_jsonb(random()))) FROM fleetlog.next_request('valves', 100, '1 s'))
	SELECT NOT EXISTS (SELECT FROM a WHERE count > 0) AND (SELECT sum(pending + waiting + lag) FROM fleetlog.stat_loop) = 0}, 't', 'all to be decided');

my $all = $sent * $DEVICES;
is($s->sql("SELECT count(*) FROM telemetry"), $all, 'every reading is there');
is($s->sql("SELECT count(*), count(DISTINCT (j -> 'reading' ->> 'shard', j -> 'reading' ->> 'offset')) FROM valves_decision, fleetlog.json(payload) j"), "$all|$all", 'each was decided exactly once');
is($s->sql("SELECT count(*) FROM (SELECT (x.d ->> 'v')::int AS v, (x.d ->> 'n')::int AS n, row_number() OVER (PARTITION BY key ORDER BY d.shard, d.log_offset) AS r FROM valves_decision d, jsonb_array_elements(fleetlog.json(payload) -> 'decisions') x(d)) x WHERE v <> r OR n <> r - 1"), 0, 'in order, with the state that the one before left');
is($s->sql("SELECT count(*), count(DISTINCT (j -> 'reading' ->> 'shard', j -> 'reading' ->> 'offset')) FROM valves_request, fleetlog.json(payload) j"), ($all / 2) . '|' . ($all / 2), 'every question was asked once');
is($s->sql("SELECT count(*), count(DISTINCT fleetlog.json(payload) ->> 'request') FROM valves_response"), ($all / 2) . '|' . ($all / 2), 'one answer to each is recorded');
is($s->sql("SELECT count(*) FROM valves_decision d CROSS JOIN fleetlog.json(d.payload) j JOIN valves_response q ON q.shard = (j -> 'response' ->> 'shard')::int AND q.log_offset = (j -> 'response' ->> 'offset')::bigint WHERE fleetlog.json(q.payload) -> 'response' = j -> 'decisions' -> 0 -> 'x' AND fleetlog.json(q.payload) -> 'request' = j -> 'request'"), $all / 2, 'and is what was decided about');
is($s->sql("SELECT count(*), count(DISTINCT (device, payload)) FROM fleetlog.command"), "$all|$all", 'no command is there twice, none is lost');
is($s->sql("SELECT count(*) FROM valves_decision d CROSS JOIN jsonb_array_elements(fleetlog.json(d.payload) -> 'commands') x JOIN fleetlog.command c ON c.id = (x ->> 'id')::uuid"), $all, 'under the ids that decisions name');
is($s->sql("SELECT sum(readings), sum(decisions), sum(answered), sum(commands) FROM fleetlog.stat_loop"), join('|', $all, $all, $all / 2, $all), 'and counted so');
is($s->sql("SELECT string_agg(DISTINCT verdict, ' ') FROM fleetlog.replay('valves')"), 'same', 'replay finds every decision the same');
done_testing();
