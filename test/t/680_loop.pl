# D1, D2: a loop decides each reading once, a device's in order, with exact results over several devices and shards; a pending
# answer holds up nobody else; answers come by SQL, MQTT and records; late, malformed and double ones are counted and change
# nothing; after max_attempts a request ends as unanswered; policies that fail, write or read more than they may stop their
# shard and lose nothing; pause, resume, alter and drop in the middle; a command that cannot be sent stands in its decision.
use strict;
use warnings;
use Test::More;
use JSON::PP;
use FleetlogTest;

my $s = FleetlogTest->new('loop');
my $json = JSON::PP->new->canonical;
$s->fleet(devices => 6, shards => 3);
$s->sql(<<'SQL');
CREATE TABLE t (i int);
CREATE FUNCTION p(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	v int := (fleetlog.json(reading.payload) ->> 'v')::int;
	n int := coalesce((state ->> 'n')::int, 0);
BEGIN
	IF response IS NOT NULL THEN
		RETURN jsonb_build_object('decisions', jsonb_build_array(jsonb_build_object('v', v, 'n', n, 'x', response -> 'x', 'unanswered', response -> 'unanswered')),
			'commands', CASE WHEN (response ->> 'x')::int >= 100 THEN jsonb_build_array(jsonb_build_object('device', reading.device, 'name', 'close', 'payload', response)) END);
	ELSIF v % 3 = 0 THEN
		RETURN jsonb_build_object('ask', jsonb_build_object('v', v), 'state', jsonb_build_object('n', n + 1));
	ELSIF v % 5 = 0 THEN
		RETURN NULL;
	END IF;
	RETURN jsonb_build_object('decisions', jsonb_build_array(jsonb_build_object('v', v, 'n', n)), 'state', CASE WHEN v % 7 = 0 THEN 'null'::jsonb ELSE jsonb_build_object('n', n + 1) END);
END $$;
SELECT fleetlog.create_loop('valves', 'telemetry', 'p'::regproc, 'm', '1', max_attempts => 2);
SQL

my %readings;	# of a device, in order

sub reading
{
    my ($device, @v) = @_;
    push @{ $readings{$device} }, @v;
    $s->sql(join('', map { "SELECT fleetlog.append('telemetry', '$device', '{\"v\": $_}', device => '$device', tenant => 'acme');" } @v));
    return;
}

# What the policy has to say of a device's readings, when every request is answered with twice the value.
sub expected
{
    my ($device) = @_;
    my $n = 0;
    my @d;
    for my $v (@{ $readings{$device} })
    {
        if ($v % 3 == 0) { $n++; push @d, { v => $v, n => $n, x => 2 * $v, unanswered => undef }; }
        elsif ($v % 5 != 0) { push @d, { v => $v, n => $n }; $n = $v % 7 ? $n + 1 : 0; }
    }
    return $json->encode(\@d);
}

sub decided
{
    my ($device) = @_;
    return $json->encode($json->decode($s->sql(<<SQL)));
SELECT coalesce(jsonb_agg(x.d ORDER BY (j -> 'reading' ->> 'offset')::bigint, shard, log_offset), '[]') FROM valves_decision, fleetlog.json(payload) j, jsonb_array_elements(j -> 'decisions') x(d) WHERE key = 'acme/$device'
SQL
}

my $ANSWER = q{SELECT count(fleetlog.answer(request, lease, jsonb_build_object('x', (ask ->> 'v')::int * 2))) FROM fleetlog.next_request('valves', 100)};
sub answer_all
{
    $s->wait_for("WITH a AS ($ANSWER) SELECT NOT EXISTS (SELECT FROM a WHERE count > 0) AND (SELECT sum(pending + waiting + lag) FROM fleetlog.stat_loop WHERE loop = 'valves') = 0", 't', 'all to be answered');
    return;
}
sub sum { my ($what) = @_; return $s->sql("SELECT sum($what) FROM fleetlog.stat_loop WHERE loop = 'valves'"); }

# ---- exact results; a pending answer holds up its device only ----

reading('d1', 1, 2, 3, 4, 6, 7, 9);
reading('d2', 1, 2, 4, 5, 7, 8);
$s->wait_for("SELECT sum(lag) FROM fleetlog.stat_loop WHERE loop = 'valves'", 0);
is(decided('d2'), expected('d2'), 'a device whose policy asks nothing is decided at once');
is(decided('d1'), '[{"n":0,"v":1},{"n":1,"v":2}]', 'one that waits for its model has decided what came before');
is($s->sql("SELECT sum(pending) || ' ' || sum(waiting) || ' ' || sum(readings) FROM fleetlog.stat_loop"), '1 4 13', 'the others of its readings wait');
answer_all();
is(decided('d1'), expected('d1'), 'with answers all of them are decided, in order');
reading("d$_", map { $_ * 31 % 17 } 1 .. 40) for 3 .. 6;
answer_all();
is(decided("d$_"), expected("d$_"), "device $_") for 3 .. 6;
is(sum('readings'), 173, 'every reading once');
is(sum('requests'), $s->sql('SELECT count(*) FROM valves_request'), 'requests are counted');
is(sum('answered'), $s->sql('SELECT count(*) FROM valves_response'), 'and answers');
is($s->sql('SELECT count(*) FROM fleetlog.loop_request'), 0, 'nothing is pending');

# ---- what a request says, and the way back from a decision ----

is($s->sql(<<'SQL'), '', 'a request holds the reading, from which the record is made again');
SELECT fleetlog._loop_reading(j -> 'reading'), ROW(t.*) FROM valves_request q CROSS JOIN fleetlog.json(q.payload) j
LEFT JOIN telemetry t ON t.shard = (j -> 'reading' ->> 'shard')::int AND t.log_offset = (j -> 'reading' ->> 'offset')::bigint
WHERE fleetlog._loop_reading(j -> 'reading')::text IS DISTINCT FROM ROW(t.*)::text LIMIT 1
SQL
is($s->sql("SELECT j ->> 'model', j ->> 'version', j -> 'parameters', j -> 'state_before', j -> 'state' FROM valves_request, fleetlog.json(payload) j WHERE key = 'acme/d1' ORDER BY log_offset LIMIT 1"), 'm|1|{}|{"n": 2}|{"n": 3}', 'model, version, parameters, state');
is($s->sql(<<'SQL'), 't', 'a decision names its request and response, and they name each other');
SELECT bool_and(r.payload IS NOT NULL AND fleetlog.json(q.payload) -> 'request' = j -> 'request' AND fleetlog.json(r.payload) -> 'reading' ->> 'offset' = j -> 'reading' ->> 'offset')
FROM valves_decision d CROSS JOIN fleetlog.json(d.payload) j
LEFT JOIN valves_request r ON r.shard = (j -> 'request' ->> 'shard')::int AND r.log_offset = (j -> 'request' ->> 'offset')::bigint
LEFT JOIN valves_response q ON q.shard = (j -> 'response' ->> 'shard')::int AND q.log_offset = (j -> 'response' ->> 'offset')::bigint
WHERE j ? 'request'
SQL

# ---- commands ----

reading('d1', 51, 1);
answer_all();
is($s->sql("SELECT count(*), min(c.tenant || '/' || c.device || ' ' || c.name || ' ' || c.payload) FROM valves_decision d, jsonb_array_elements(fleetlog.json(d.payload) -> 'commands') x JOIN fleetlog.command c ON c.id = (x ->> 'id')::uuid"),
    '1|acme/d1 close {"x": 102}', 'a command carries the id that the decision names');
$s->sql("SELECT fleetlog.append('telemetry', 'ghost', '{\"v\": 60}', device => 'ghost', tenant => 'acme')");
answer_all();
is($s->sql("SELECT x ->> 'error' FROM valves_decision d, jsonb_array_elements(fleetlog.json(d.payload) -> 'commands') x WHERE key = 'acme/ghost'"), 'device "acme/ghost" does not exist', 'one that cannot be sent says why');
is(sum('commands'), 1, 'and is not counted as sent');

# ---- leases, late and double answers, no answer ----

sub lease { my ($ms) = @_; $s->wait_for("SELECT sum(pending) > 0 FROM fleetlog.stat_loop", 't'); return split /\|/, $s->sql("SELECT request, lease, (request).shard || ':' || (request).log_offset FROM fleetlog.next_request('valves', 1, '$ms ms')"); }
reading('d2', 3);
my ($request, $lease) = lease(60000);
is($s->sql("SELECT count(*) FROM fleetlog.next_request('valves')"), 0, 'what is leased is given to nobody else');
like($s->sql_error("SELECT fleetlog.answer('$request', @{[$lease + 1000]}, '{}')"), qr/was not given/, 'a lease that was not given');
$s->sql("SELECT fleetlog.fail_request('$request', $lease, 'out of memory')");
($request, my $second) = lease(60000);
is($s->sql("SELECT fleetlog.fail_request('$request', $lease, 'again')"), 'f', 'an old lease cannot fail it');
my $at = $s->sql("SELECT fleetlog.answer('$request', $lease, '{\"x\": 6}')");
like($at, qr/valves_response/, 'but it can answer: the first that is committed wins');
like($s->sql_error("SELECT fleetlog.answer('$request', $second, '{\"x\": 7}')"), qr/LF601.*already answered/s, 'the second is refused');
answer_all();
is(decided('d2'), expected('d2'), 'the first is what was decided about');
is(sum('late_answers'), 1, 'and the second is counted');

reading('d2', 6, 1);
($request, $lease) = lease(60000);
$s->sql("SELECT fleetlog.fail_request('$request', $lease, 'a')");
($request, $lease) = lease(300);
$s->wait_for("SELECT sum(unanswered) FROM fleetlog.stat_loop", 1, 'the last lease to end');
$s->wait_for("SELECT sum(waiting) FROM fleetlog.stat_loop", 0);
is($s->sql("SELECT fleetlog.json(payload) -> 'decisions' -> 0 ->> 'unanswered' FROM valves_decision WHERE key = 'acme/d2' AND fleetlog.json(payload) ? 'request' ORDER BY log_offset DESC LIMIT 1"), 'true', 'after max_attempts the policy decides without an answer');
is($s->sql("SELECT fleetlog.json(payload) - 'request' FROM valves_response WHERE payload::text LIKE '%' AND fleetlog.json(payload) ? 'unanswered'"), '{"error": "a", "attempts": 2, "unanswered": true}', 'which is recorded');
like($s->sql_error("SELECT fleetlog.answer('$request', $lease, '{}')"), qr/LF601/, 'an answer is too late then');

# Published answers.
$s->sql("SELECT fleetlog.allow('acme', 'publish', 'acme/models/#'), fleetlog.mount('acme/models/valves/response/', 'valves_response'), fleetlog.mount('acme/models/valves/request/', 'valves_request')");
reading('d3', 9, 2);
my $late = sum('late_answers');
(undef, undef, my $position) = lease(60000);
my $model = $s->device('d6');
is($s->sql("SELECT fleetlog.text(h.value) FROM valves_request r, fleetlog.headers_array(r.headers) h WHERE h.name = 'response-topic' ORDER BY r.ts DESC LIMIT 1"), 'acme/models/valves/response/acme/d3', 'a request says where its answer is wanted');
is($model->publish_acked('acme/models/valves/response/acme/d3', 'no json', properties => [ [ 9, $position ] ]), 0, 'a model publishes, with correlation data');
is($model->publish_acked('acme/models/valves/response/acme/d3', '{"x": 18}'), 0, 'without');
is($model->publish_acked('acme/models/valves/response/acme/d3', '{"x": 18}', properties => [ [ 9, $position ] ]), 0, 'as it should');
is($model->publish_acked('acme/models/valves/response/acme/d3', '{"x": 19}', properties => [ [ 9, $position ] ]), 0, 'once more');
$s->sql("SELECT fleetlog.append('valves_response', 'k', '{\"request\": {\"shard\": 0, \"offset\": 0}, \"unanswered\": true}')");
answer_all();
$s->wait_for("SELECT late_answers FROM fleetlog.stat_loop WHERE loop = 'valves' AND shard = 0", $late + 2);
is(sum('malformed_answers'), 2, 'what cannot be read is counted');
is($s->sql("SELECT fleetlog.json(payload) -> 'decisions' -> 0 ->> 'x' FROM valves_decision WHERE key = 'acme/d3' AND fleetlog.json(payload) ? 'request' ORDER BY log_offset DESC LIMIT 1"), 18, 'the first in the stream wins');
reading('d3', 12);
(undef, undef, $position) = lease(60000);
my ($rs, $ro) = split /:/, $position;
$s->sql("SELECT fleetlog.append('valves_response', 'k', '{\"request\": {\"shard\": $rs, \"offset\": $ro}, \"response\": {\"x\": 24}}')");
answer_all();
is(decided('d3'), expected('d3'), 'a record that names its request answers it, too');

# ---- a transaction that is open beside it ----

my $open = $s->session;
$open->query("BEGIN; SELECT count(*) FROM telemetry; SELECT txid_current(); SELECT count(*) FROM fleetlog.next_request('valves')");
reading('d4', 1, 2);
$s->wait_for("SELECT sum(lag) FROM fleetlog.stat_loop", 0, 'readings behind an old transaction');
is(decided('d4'), expected('d4'), 'a long transaction holds up nothing');
$open->query('ROLLBACK');
$open->quit;

# ---- pause, resume, alter ----

$s->sql("SELECT fleetlog.pause_loop('valves')");
reading('d4', 2, 3);
$s->wait_for("SELECT sum(lag) FROM fleetlog.stat_loop", 2);
is($s->sql("SELECT string_agg(DISTINCT state, ' ') FROM fleetlog.stat_loop"), 'paused', 'paused');
$s->sql("SELECT fleetlog.resume_loop('valves')");
answer_all();
is(decided('d4'), expected('d4'), 'resumed: nothing is lost');

reading('d4', 6, 1);
lease(60000);
$s->sql(<<'SQL');
CREATE OR REPLACE FUNCTION p(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$ SELECT '{"decisions": ["new"]}'::jsonb $$;
SELECT fleetlog.alter_loop('valves', policy => 'p'::regproc, version => '2');
SQL
$s->sql("SELECT fleetlog.append('telemetry', 'd4', '{\"v\": 6}', device => 'd4', tenant => 'acme')");
$s->wait_for("SELECT sum(lag) FROM fleetlog.stat_loop", 0);
$s->sql("SELECT fleetlog.append('valves_response', 'k', convert_to(jsonb_build_object('request', jsonb_build_object('shard', request_shard, 'offset', request_offset), 'response', '{\"x\": 12}'::jsonb)::text, 'UTF8')) FROM fleetlog.loop_request");
answer_all();
(my $both = expected('d4')) =~ s/\]$/,"new"]/;
is(decided('d4'), $both, 'who asked under the old policy, and what waited behind it, is decided by it; what comes later by the new one');
is($s->sql("SELECT string_agg(DISTINCT fleetlog.json(payload) ->> 'policy_version', ' ') FROM valves_decision WHERE key = 'acme/d4'"), '1 2', 'decisions say which');

# ---- policies that fail ----

my $stops = 0;
sub stops_with
{
    my ($body, $error, $what, $volatility, $replayable) = @_;
    $volatility //= 'IMMUTABLE';
    $replayable //= 'true';
    $s->sql("CREATE OR REPLACE FUNCTION q(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql $volatility AS \$\$ $body \$\$;"
      . " SELECT fleetlog.alter_loop('valves', policy => 'q'::regproc, replayable => $replayable)");
    my $before = $s->sql('SELECT count(*) FROM valves_decision');
    $stops++;
    $s->sql("SELECT fleetlog.append('telemetry', 'd5', '{\"v\": $_}', device => 'd5', tenant => 'acme') FROM (VALUES (1)) x") for 1, 2, 3;
    $s->wait_for("SELECT count(*) FROM fleetlog.stat_loop WHERE state = 'stopped'", 1, $what);
    like($s->sql("SELECT error FROM fleetlog.stat_loop WHERE state = 'stopped'"), $error, $what);
    is($s->sql("SELECT fleetlog.json(payload) ->> 'v' FROM telemetry t JOIN fleetlog.stat_loop l ON l.shard = t.shard AND l.error_offset = t.log_offset"), 2, 'at that reading');
    is($s->sql('SELECT count(*) FROM valves_decision') - $before, 1, 'what came before it is decided');
    $s->sql("CREATE OR REPLACE FUNCTION q(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS \$\$ SELECT '{\"decisions\": [\"mended\"]}'::jsonb \$\$;"
      . " SELECT fleetlog.alter_loop('valves', policy => 'q'::regproc)");
    $s->wait_for("SELECT sum(lag) FROM fleetlog.stat_loop", 0, 'the new policy');
    is($s->sql('SELECT count(*) FROM valves_decision') - $before, 3, 'the new policy decides that reading and what follows');
    return;
}
my $TWO = "IF (fleetlog.json(reading.payload) ->> 'v')::int <> 2 THEN RETURN '{\"decisions\": [1]}'; END IF;";
stops_with("BEGIN $TWO RETURN to_jsonb(1 / 0); END", qr/^22012: division by zero/, 'an error');
stops_with("BEGIN $TWO RETURN '{\"decision\": [1]}'; END", qr/^LF603: .*no member "decision"/, 'a result that is malformed');
stops_with("BEGIN $TWO RETURN jsonb_build_object('decisions', jsonb_build_array(clock_timestamp())); END", qr/^LF602: .*clock_timestamp/, 'the clock');
stops_with("BEGIN $TWO RETURN (SELECT to_jsonb(count(*)) FROM fleetlog.command); END", qr/^LF602: .*table command/, 'a table');
stops_with("BEGIN $TWO INSERT INTO public.t VALUES (1); RETURN NULL; END", qr/^25006: cannot execute INSERT/, 'a write', 'VOLATILE', 'false');
$s->set_conf('fleetlog.loop_policy_timeout' => '300ms');
stops_with("BEGIN $TWO PERFORM pg_sleep(100); RETURN NULL; END", qr/^57014: /, 'one that does not end', 'VOLATILE', 'false');

# The clock is allowed where that is said.
$s->sql("CREATE OR REPLACE FUNCTION q(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql STABLE AS \$\$ SELECT jsonb_build_object('decisions', jsonb_build_array(clock_timestamp() > at)) \$\$;"
  . " SELECT fleetlog.alter_loop('valves', policy => 'q'::regproc, replayable => false)");
$s->sql("SELECT fleetlog.append('telemetry', 'd5', '{}', device => 'd5', tenant => 'acme')");
$s->wait_for("SELECT sum(lag) FROM fleetlog.stat_loop", 0);
is($s->sql("SELECT fleetlog.json(payload) -> 'decisions' FROM valves_decision WHERE key = 'acme/d5' ORDER BY log_offset DESC LIMIT 1"), '[true]', 'a policy that reads the clock and says so');
is($s->sql("SELECT replayable FROM fleetlog.loop"), 'f', 'is marked');

# Asking in the second call; the answer is kept, and handled by the next policy.
$s->sql(<<'SQL');
CREATE OR REPLACE FUNCTION q(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$ SELECT '{"ask": {"v": 1}}'::jsonb $$;
SELECT fleetlog.alter_loop('valves', policy => 'q'::regproc);
SELECT fleetlog.append('telemetry', 'd5', '{}', device => 'd5', tenant => 'acme') FROM generate_series(1, 2);
SQL
lease(60000);
$s->sql("SELECT fleetlog.append('valves_response', 'k', convert_to(jsonb_build_object('request', jsonb_build_object('shard', request_shard, 'offset', request_offset), 'response', '{\"x\": 12}'::jsonb)::text, 'UTF8')) FROM fleetlog.loop_request");
$s->wait_for("SELECT count(*) FROM fleetlog.stat_loop WHERE state = 'stopped' AND error LIKE 'LF603%ask%'", 1, 'a second question');
$s->sql(<<'SQL');
CREATE OR REPLACE FUNCTION q(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$ SELECT jsonb_build_object('decisions', jsonb_build_array(response)) $$;
SELECT fleetlog.alter_loop('valves', policy => 'q'::regproc);
SQL
$s->wait_for("SELECT sum(pending + waiting + lag) FROM fleetlog.stat_loop", 0);
is($s->sql("SELECT jsonb_agg(fleetlog.json(payload) -> 'decisions' -> 0 ORDER BY log_offset) FROM (SELECT * FROM valves_decision WHERE key = 'acme/d5' ORDER BY log_offset DESC LIMIT 2) x"), '[{"x": 12}, null]', 'the answer that had come is decided about, and what waited');

# ---- an owner without rights ----

$s->sql("CREATE ROLE own LOGIN; GRANT fleetlog_admin TO own; GRANT CREATE ON SCHEMA public TO own; GRANT SELECT ON telemetry TO own");
$s->sql("SET ROLE own; CREATE FUNCTION o(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS \$\$ SELECT jsonb_build_object('decisions', jsonb_build_array(current_setting('is_superuser'))) \$\$;"
  . " SELECT fleetlog.create_loop('second', 'telemetry', 'o'::regproc, 'm', '1', replayable => true)");
$s->sql("REVOKE SELECT ON telemetry FROM own");
$s->sql("SELECT fleetlog.append('telemetry', 'd5', '{}', device => 'd5', tenant => 'acme')");
$s->wait_for("SELECT count(*) FROM fleetlog.stat_loop WHERE loop = 'second' AND state = 'failing' AND error LIKE '42501%no right to read%'", 3, 'an owner who may not read');
is($s->sql("SELECT count(*) FROM second_decision"), 0, 'decides nothing');
$s->sql("GRANT SELECT ON telemetry TO own");
$s->wait_for("SELECT count(*) FROM fleetlog.stat_loop WHERE loop = 'second' AND state = 'stopped' AND error LIKE 'LF602%'", 1, 'with the right it goes on, and is caught');
is($s->sql("SELECT sum(lag) FROM fleetlog.stat_loop WHERE loop = 'valves'"), 0, 'another loop is not held up');

# ---- drop ----

$s->sql("SELECT fleetlog.drop_loop('second'), fleetlog.drop_loop('valves')");
is($s->sql("SELECT count(*) FROM fleetlog.stat_loop"), 0, 'gone');
$s->wait_for("SELECT count(*) FROM fleetlog.stat_worker WHERE kind = 'runner'", 0, 'the runner to leave where there is no loop');
is($s->crashes, '', 'no crash');
done_testing();
