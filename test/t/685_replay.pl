# D3: what the runner recorded is replayed equal, with a model that answers something else each time: over several shards and
# devices, readings that wait, requests that nobody answers, commands, a policy that is changed on the way, and kill -9; by the
# session alone, and by workers that share it.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('replay', conf => "fleetlog.replay_workers_min = 0\n");
$s->fleet(devices => 5, shards => 3);
$s->sql(<<'SQL');
CREATE FUNCTION p(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	v int := (fleetlog.json(reading.payload) ->> 'v')::int;
	n int := coalesce((state ->> 'n')::int, 0) + 1;
BEGIN
	IF response IS NOT NULL THEN
		RETURN jsonb_build_object('decisions', jsonb_build_array(jsonb_build_object('v', v, 'n', n, 'x', response -> 'x', 'unanswered', response -> 'unanswered', 'at', at)),
			'commands', CASE WHEN (response ->> 'x')::float8 > 0.5 THEN jsonb_build_array(jsonb_build_object('device', coalesce(reading.device, 'd1'), 'name', 'close', 'payload', response)) END,
			'state', jsonb_build_object('n', n, 'x', response -> 'x'));
	ELSIF v % 3 = 0 THEN
		RETURN jsonb_build_object('ask', jsonb_build_object('v', v), 'state', jsonb_build_object('n', n));
	ELSIF v % 5 = 0 THEN
		RETURN jsonb_build_object('state', jsonb_build_object('n', n));
	END IF;
	RETURN jsonb_build_object('decisions', jsonb_build_array(jsonb_build_object('v', v, 'before', state)), 'state', CASE WHEN v % 7 = 0 THEN 'null'::jsonb ELSE jsonb_build_object('n', n) END);
END $$;
SELECT fleetlog.create_loop('valves', 'telemetry', 'p'::regproc, 'm', '1', max_attempts => 1);
SELECT fleetlog.create_loop('references', 'telemetry', 'p'::regproc, 'm', '1', evidence => 'reference');
SQL

sub readings
{
    my ($from, $to) = @_;
    $s->sql("SELECT fleetlog.append('telemetry', 'acme/d' || n % 5 + 1, convert_to(format('{\"v\": %s}', n), 'UTF8'), device => CASE WHEN n % 11 > 0 THEN 'd' || n % 5 + 1 END, tenant => CASE WHEN n % 11 > 0 THEN 'acme' END,
        shard => n % 5 % 3, headers => CASE WHEN n % 4 = 0 THEN fleetlog.headers('{\"unit\": \"bar\"}') END) FROM generate_series($from, $to) n");
    return;
}

# Each answer is random; of some requests the lease is given back, and then they end as unanswered.
sub answer_all
{
    for my $loop ('valves', 'references')
    {
        $s->wait_for(<<SQL, 't', "$loop to be answered");
WITH q AS MATERIALIZED (SELECT * FROM fleetlog.next_request('$loop', 50)),
a AS (SELECT CASE WHEN '$loop' = 'valves' AND random() < 0.2 THEN fleetlog.fail_request(request, lease, 'no idea') ELSE (fleetlog.answer(request, lease, jsonb_build_object('x', random()))).shard >= 0 END FROM q)
SELECT (SELECT count(*) FROM a) = 0 AND (SELECT sum(pending + waiting + lag) FROM fleetlog.stat_loop WHERE loop = '$loop') = 0
SQL
    }
    return;
}

sub equal
{
    my ($what) = @_;
    for my $loop ('valves', 'references')
    {
        my $decisions = $s->sql("SELECT count(*) FROM ${loop}_decision");
        for my $workers (0, 3)
        {
            is($s->sql("SET fleetlog.replay_workers = $workers; SELECT string_agg(verdict || ' ' || n || coalesce(': ' || reason, ''), ', ') FROM (SELECT verdict, count(*) AS n, min(reason) AS reason FROM fleetlog.replay('$loop') GROUP BY 1) x"),
                "same $decisions", "$what: every decision of $loop comes out again with $workers workers");
        }
    }
    return;
}

readings(1, 300);
answer_all();
equal('a model that answers at random');
cmp_ok($s->sql("SELECT count(*) FROM valves_decision WHERE fleetlog.json(payload) -> 'decisions' -> 0 ->> 'unanswered' = 'true'"), '>', 0, 'some were not answered');
cmp_ok($s->sql("SELECT count(*) FROM valves_decision WHERE jsonb_array_length(fleetlog.json(payload) -> 'commands') > 0"), '>', 0, 'some sent commands');
my $commands = $s->sql('SELECT count(*) FROM fleetlog.command');
is($s->sql("SELECT count(*) > 0 FROM fleetlog.replay('valves') WHERE recorded ? 'commands'"), 't', 'commands are compared');
is($s->sql('SELECT count(*) FROM fleetlog.command'), $commands, 'and none is sent');

# While requests are pending nothing is missing.
readings(301, 400);
$s->wait_for("SELECT sum(lag) FROM fleetlog.stat_loop", 0, 'the loops to have read');
equal('with pending requests');

# Another policy from the next reading on.
answer_all();
$s->sql(<<'SQL');
CREATE OR REPLACE FUNCTION p(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
	SELECT jsonb_build_object('decisions', jsonb_build_array(jsonb_build_object('new', fleetlog.json(reading.payload), 'state', state)), 'state', state) $$;
SELECT fleetlog.alter_loop('valves', policy => 'p'::regproc);
DROP FUNCTION p;
SQL
readings(401, 450);
answer_all();
equal('after the policy was changed');
cmp_ok($s->sql("SELECT count(*) FROM fleetlog.replay('valves') WHERE recorded -> 'decisions' -> 0 ? 'new'"), '>=', 50, 'both texts were run');

$s->kill9_and_start;
readings(451, 470);
answer_all();
equal('after a crash');

# Retention.
$s->sql("SELECT fleetlog.trim_head('telemetry', n, fleetlog.tail('telemetry', n) - 5, NULL) FROM generate_series(0, 2) n");
is($s->sql("SELECT string_agg(DISTINCT verdict, ', ') FROM fleetlog.replay('valves')"), 'same', 'copies outlive retention');
is($s->sql("SELECT string_agg(DISTINCT verdict, ', ' ORDER BY verdict) FROM fleetlog.replay('references')"), 'reading gone, same', 'references are gone, never missing');

is($s->crashes, '', 'no process crashed');
done_testing();
