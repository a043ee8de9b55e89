# D4, D5: a decision of a running loop is explained from its position, from the device that was read and from the one that was
# commanded: reading, request, response, decision, command, deliveries, answers, with positions that hold what is told and times
# in order; links are written with decisions, also when the server is killed in between, and go with them.  A shadow model that
# answers live and recorded requests changes nothing, and the comparison tells exactly what it would have changed.
use strict;
use warnings;
use Test::More;
use JSON::PP;
use FleetlogTest;

my $s = FleetlogTest->new('explain');
$s->fleet(devices => 4, shards => 2);
# Asks about each pressure; closes the valve, which is d4, from a risk of 5 on.
$s->sql(<<'SQL');
CREATE FUNCTION p(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	bar int := (fleetlog.json(reading.payload) ->> 'bar')::int;
BEGIN
	IF bar IS NULL THEN
		RETURN NULL;
	ELSIF bar = 0 THEN
		RETURN '{"decisions": ["nothing to ask"]}';
	ELSIF response IS NULL THEN
		RETURN jsonb_build_object('ask', jsonb_build_object('bar', bar));
	ELSIF (response ->> 'risk')::int >= 5 THEN
		RETURN jsonb_build_object('decisions', '[{"kind": "close"}]'::jsonb, 'commands', jsonb_build_array(jsonb_build_object('device', 'd4', 'name', 'close', 'payload', jsonb_build_object('bar', bar))),
			'state', jsonb_build_object('closed', coalesce((state ->> 'closed')::int, 0) + 1));
	END IF;
	RETURN '{"decisions": [{"kind": "leave"}]}';
END $$;
SELECT fleetlog.create_loop('valves', 'telemetry', 'p'::regproc, 'mill', '7', '{"t": 1}');
SELECT fleetlog.create_shadow_model('valves', 'live', 'mill', '8');
SQL

sub reading
{
    my ($device, @bar) = @_;
    $s->sql(join('', map { "SELECT fleetlog.append('telemetry', 'acme/$device/press', '{\"bar\": $_}', device => '$device', tenant => 'acme');" } @bar));
    return;
}
# The model says the pressure; returns when all is decided.
sub answer_all
{
    $s->wait_for(<<'SQL', 't', 'all to be decided');
WITH a AS (SELECT count(fleetlog.answer(request, lease, jsonb_build_object('risk', ask -> 'bar'))) AS n FROM fleetlog.next_request('valves', 100))
SELECT n = 0 AND (SELECT sum(pending + waiting + lag) = 0 FROM fleetlog.stat_loop WHERE loop = 'valves') FROM a
SQL
    return;
}
sub steps { my ($call) = @_; return $s->sql("SELECT string_agg(step || ' ' || what, ', ' ORDER BY n) FROM $call WITH ORDINALITY e(step, ts, position, what, detail, of_decision, n)"); }

# ---- the chain of one command, which the valve answers ----

my $valve = $s->device('d4');
$valve->subscribe([ [ 'acme/cmd/d4/req/+', 1 ] ]);
reading('d1', 9);
answer_all();
my $p = $valve->expect('PUBLISH');
is("$p->{topic} $p->{payload}", 'acme/cmd/d4/req/close {"bar": 9}', 'a decision reaches the valve');
my $id = FleetlogTest::Mqtt::property($p, 9);
$valve->puback($p->{pid});
$s->wait_for("SELECT state FROM fleetlog.command WHERE id = '$id'", 'delivered');
is($valve->publish_acked("acme/cmd/d4/ack/$id", ''), 0, 'the valve acknowledges');
is($valve->publish_acked("acme/cmd/d4/res/$id", '{"status": "succeeded", "angle": 0}'), 0, 'and answers');
$s->wait_for("SELECT state FROM fleetlog.command WHERE id = '$id'", 'succeeded');
my $user = $s->sql('SELECT current_user');
my $lease = $s->sql("SELECT fleetlog.json(payload) ->> 'lease' FROM valves_response");
my $chain = "reading acme/d1 acme/d1/press, request model mill, version 7, asked by policy version 1, response answered by $user under lease $lease, " .
  'decision loop valves, policy version 1, command close to acme/d4: succeeded, delivery sent, delivery delivered, answer acknowledged, answer succeeded';
my $position = $s->sql("SELECT ROW('valves_decision'::regclass, shard, log_offset)::fleetlog.log_position FROM valves_decision");
is(steps("fleetlog.explain_decision('$position'::fleetlog.log_position)"), $chain, 'the whole chain, from its position');
is(steps("fleetlog.explain_decision('acme/d4', now())"), $chain, 'from the valve and a time');
is(steps("fleetlog.explain_decision('d1', now())"), $chain, 'from the sensor');
is(steps("fleetlog.explain_decision('acme/d2', now())"), '', 'nothing was decided about another');
is(steps("fleetlog.explain_decision('acme/d4', now() - interval '1 h')"), '', 'nor at another time');
is($s->sql("SELECT bool_and(ts >= before) FROM (SELECT ts, lag(ts) OVER (ORDER BY n) AS before FROM fleetlog.explain_decision('d4', now()) WITH ORDINALITY e(step, ts, p, w, d, o, n) WHERE step <> 'command') x"),
    't', 'each step comes after the one before it');
is($s->sql("SELECT detail FROM fleetlog.explain_decision('d4', now()) WHERE step IN ('reading', 'request', 'response', 'decision') OR what = 'succeeded'"),
    join("\n", '{"payload": {"bar": 9}}', '{"ask": {"bar": 9}, "parameters": {"t": 1}}', '{"risk": 9}', '{"state": {"closed": 1}, "decisions": [{"kind": "close"}]}', '{"angle": 0, "status": "succeeded"}'), 'what each of them said');
# The position of each step is a record that is about it.
is($s->sql(<<'SQL'), 'reading {"bar": 9}|decision 1|sent {"bar": 9}|delivered 1|acknowledged 1|succeeded {"angle": 0, "status": "succeeded"}', 'positions are those of records that say so');
SELECT string_agg(x, '|') FROM (
	SELECT 'reading ' || fleetlog.text(t.payload) AS x FROM fleetlog.explain_decision('d4', now()) e JOIN telemetry t ON t.shard = (e.position).shard AND t.log_offset = (e.position).log_offset WHERE step = 'reading'
	UNION ALL SELECT 'decision ' || (fleetlog.json(t.payload) ->> 'policy_version') FROM fleetlog.explain_decision('d4', now()) e JOIN valves_decision t ON t.shard = (e.position).shard AND t.log_offset = (e.position).log_offset WHERE step = 'decision'
	UNION ALL SELECT e.what || ' ' || CASE WHEN e.what IN ('sent', 'succeeded') THEN fleetlog.json(l.payload)::text ELSE '1' END FROM fleetlog.explain_decision('d4', now()) e
		JOIN fleetlog.command_log l ON l.shard = (e.position).shard AND l.log_offset = (e.position).log_offset WHERE (e.position).stream = 'fleetlog.command_log'::regclass) y
SQL

# ---- a decision that asked nothing, one that could not command ----

reading('d2', 0);
answer_all();
is(steps("fleetlog.explain_decision('acme/d2', now())"), 'reading acme/d2 acme/d2/press, decision loop valves, policy version 1', 'a decision without a question');
$valve->disconnect;
$s->sql("SELECT fleetlog.revoke_device('acme/d4', 'test')");
reading('d3', 7);
answer_all();
is(steps("fleetlog.explain_decision('d3', now())"), "reading acme/d3 acme/d3/press, request model mill, version 7, asked by policy version 1, response answered by $user under lease " .
    $s->sql("SELECT max((fleetlog.json(payload) ->> 'lease')::int) FROM valves_response") . ', decision loop valves, policy version 1, command close to d4 was not sent: ' .
    $s->sql("SELECT x ->> 'error' FROM valves_decision, jsonb_array_elements(fleetlog.json(payload) -> 'commands') x WHERE x ? 'error'"), 'a command that could not be sent says why');
like(steps("fleetlog.explain_decision('d3', now())"), qr/was not sent: .*d4/, 'and names the device');

# ---- links and decisions agree, also when the server is killed while it decides ----

my $agree = <<'SQL';
SELECT (SELECT count(*) FROM valves_decision d WHERE NOT EXISTS (SELECT FROM fleetlog.loop_decision_link l WHERE l.stream = 'valves_decision'::regclass AND l.shard = d.shard AND l.log_offset = d.log_offset
		AND l.tenant || '/' || l.device = d.key)) || ' ' ||
	(SELECT count(*) FROM fleetlog.loop_decision_link l WHERE l.stream = 'valves_decision'::regclass AND NOT EXISTS (SELECT FROM valves_decision d WHERE d.shard = l.shard AND d.log_offset = l.log_offset))
SQL
is($s->sql($agree), '0 0', 'each decision has its link, and each link its decision');
for my $round (1 .. 3)
{
    my $point = (qw(loop_between_appends loop_appended loop_before_append))[ $round - 1 ];
    $s->stop_points($point);
    reading("d$round", map { $_ % 10 } 1 .. 20);
    $s->wait_stopped_at($point);
    $s->kill9_and_start(no_wait => 1);
    $s->stop_points('');
    answer_all();
    is($s->sql($agree), '0 0', "round $round, killed at $point: links and decisions agree");
}
is($s->sql('SELECT count(*) FROM valves_decision'), 63, 'and each reading was decided once');

# ---- a live shadow model, and one over what is recorded ----

my $before = $s->sql("SELECT (SELECT count(*) FROM fleetlog.command), (SELECT count(*) FROM valves_request), (SELECT count(*) FROM valves_response), (SELECT count(*) FROM valves_decision), (SELECT jsonb_agg(x ORDER BY x.shard, x.key) FROM fleetlog.loop_state x)");
# It fears from 4 on what the other fears from 5 on: differs at 4 and nowhere else.
sub shadow_all { my ($name) = @_; $s->wait_for("WITH a AS (SELECT count(fleetlog.answer_shadow('valves', '$name', request, lease, jsonb_build_object('risk', (ask ->> 'bar')::int + 1))) AS n FROM fleetlog.next_shadow_request('valves', '$name', 50)) SELECT n FROM a", 0); return; }
shadow_all('live');
$s->sql("SELECT fleetlog.create_shadow_model('valves', 'range', 'mill', '8', from_ts => '-infinity', to_ts => now())");
shadow_all('range');
my ($asked, $fours) = split /\|/, $s->sql("SELECT count(*), count(*) FILTER (WHERE fleetlog.json(payload) #>> '{ask,bar}' = '4') FROM valves_request");
is("$asked $fours", '56 6', 'what was asked');
for my $name ('live', 'range')
{
    is($s->sql("SELECT compared, same, agreement = round(50.0 / 56, 4), detail FROM fleetlog.compare_shadow_model('valves', '$name') WHERE part = 'all'"), '56|50|t|{"failed": 0, "waiting": 0, "unanswered": 0, "reading gone": 0}', "$name: agreement");
    is($s->sql("SELECT item, compared, same, detail FROM fleetlog.compare_shadow_model('valves', '$name') WHERE part = 'kind' AND same < compared"), 'leave|24|18|{"close, command close": 6}', "$name: flips by kind");
    is($s->sql("SELECT string_agg(item || ' ' || compared - same, ', ' ORDER BY item) FROM fleetlog.compare_shadow_model('valves', '$name') WHERE part = 'key'"), 'acme/d1 2, acme/d2 2, acme/d3 2', "$name: flips by device");
    is($s->sql("SELECT count(*), bool_and(detail -> 'response' = '{\"risk\": 5}') FROM fleetlog.compare_shadow_model('valves', '$name', differences => 4) WHERE part = 'difference'"), '4|t', "$name: the first differences");
}
is($s->sql("SELECT sum(compared) FROM fleetlog.compare_shadow_model('valves', 'live') WHERE part = 'time'"), 56, 'over time');
is($s->sql("SELECT (SELECT count(*) FROM fleetlog.command), (SELECT count(*) FROM valves_request), (SELECT count(*) FROM valves_response), (SELECT count(*) FROM valves_decision), (SELECT jsonb_agg(x ORDER BY x.shard, x.key) FROM fleetlog.loop_state x)"), $before, 'no command, no record and no state of the loop came of it');

# ---- links go when the decisions go; a dump has them ----

my ($shard, $tail) = split /\|/, $s->sql("SELECT shard, max(log_offset) + 1 FROM valves_decision GROUP BY 1 ORDER BY 1 LIMIT 1");
$s->sql("SELECT fleetlog.trim_head('valves_decision', $shard, $tail, NULL)");
like($s->sql_error("SELECT * FROM fleetlog.explain_decision(ROW('valves_decision', $shard, 0)::fleetlog.log_position)"), qr/LF101/, 'a decision that is gone says so');
my $key = $s->sql("SELECT device FROM fleetlog.loop_decision_link WHERE stream = 'valves_decision'::regclass AND shard = $shard AND device <> 'd4' LIMIT 1");
reading($key, 1);
answer_all();
is($s->sql("SELECT count(*) FROM fleetlog.loop_decision_link WHERE stream = 'valves_decision'::regclass AND shard = $shard AND log_offset < $tail"), 0, 'links below the head go with the next decision');
is($s->sql($agree), '0 0', 'the others stay');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
