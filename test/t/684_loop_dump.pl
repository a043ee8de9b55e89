# D2 - D6, L3: pg_dump and restore of a database with decision loops, in the middle of their work: two versions of a policy, states,
# requests that are pending, leased and given back, readings that wait, commands, pins, a data set with its model, a shadow model,
# links.  All of it is as it was; replay, explanations and comparisons say the same; and the loops go on where they were, so that
# every reading is decided once.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use FleetlogTest;

my $s = FleetlogTest->new('source');
$s->fleet(devices => 3, shards => 2);
$s->sql(<<'SQL');
CREATE ROLE author; CREATE ROLE staff; CREATE SCHEMA rules;
GRANT fleetlog_admin TO author;
GRANT ALL ON SCHEMA rules TO author;
CREATE FUNCTION rules.number(reading fleetlog.log_record) RETURNS int LANGUAGE sql IMMUTABLE RETURN (fleetlog.json(reading.payload) ->> 'n')::int;
CREATE FUNCTION rules.p(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	n int := rules.number(reading);
	seen jsonb := to_jsonb(coalesce((state)::int, 0) + 1);
BEGIN
	IF response IS NOT NULL THEN
		RETURN jsonb_build_object('decisions', jsonb_build_array(response), 'state', seen, 'commands', CASE WHEN n % 4 = 0 THEN '[{"device": "d3", "name": "close", "ttl": "1 h"}]'::jsonb END);
	ELSIF n % 2 = 0 THEN
		RETURN jsonb_build_object('ask', jsonb_build_object('n', n));
	END IF;
	RETURN jsonb_build_object('decisions', jsonb_build_array(n), 'state', seen);
END $$;
ALTER FUNCTION rules.p OWNER TO author;
SELECT fleetlog.create_loop('valves', 'telemetry', 'rules.p'::regproc, 'm', '1', '{"t": 1}', evidence => 'pin');
SELECT fleetlog.create_loop('copies', 'telemetry', 'rules.p'::regproc, 'm', '1', answer_timeout => '1 h');
SELECT fleetlog.create_shadow_model('valves', 'mk2', 'm', '2');
SQL

sub readings
{
    my ($t, $from, $to) = @_;
    $t->sql("SELECT count(fleetlog.append('telemetry', 'acme/d' || n % 3 + 1, convert_to(format('{\"n\": %s}', n), 'UTF8'), device => 'd' || n % 3 + 1, tenant => 'acme', shard => n % 3 % 2)) FROM generate_series($from, $to) n");
    return;
}
sub answer_all
{
    my ($t) = @_;
    for my $loop ('valves', 'copies')
    {
        $t->wait_for(<<SQL, 't', "$loop to have decided");
WITH a AS (SELECT count(fleetlog.answer(request, lease, jsonb_build_object('said', random()))) AS n FROM fleetlog.next_request('$loop', 100))
SELECT n = 0 AND (SELECT sum(pending + waiting + lag) = 0 FROM fleetlog.stat_loop WHERE loop = '$loop') FROM a
SQL
    }
    return;
}

readings($s, 1, 60);
answer_all($s);
$s->sql("SELECT count(fleetlog.answer_shadow('valves', 'mk2', request, lease, jsonb_build_object('said', 7))) FROM fleetlog.next_shadow_request('valves', 'mk2', 20)");
$s->sql("SELECT count(*) FROM fleetlog.next_shadow_request('valves', 'mk2', 2, '1 h')");
$s->sql("SELECT fleetlog.alter_loop('valves', policy => 'rules.p'::regproc, version => '3')");
$s->sql("DROP FUNCTION rules.p");
$s->sql(q{SELECT fleetlog.create_dataset('march', 'telemetry', '{"0": [[3, 20]], "1": [[0, 9]]}', 'of march'), fleetlog.link_dataset('march', 'm', '3')});
$s->sql("GRANT SELECT ON valves_decision TO staff; ALTER TABLE valves_decision ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON valves_decision FOR SELECT TO staff USING (tenant = 'acme')");
readings($s, 61, 90);
$s->wait_for('SELECT sum(lag) FROM fleetlog.stat_loop', 0, 'the loops to have read');
# One is leased for long, one was given back, one waits.
$s->sql("SELECT count(*) FROM fleetlog.next_request('valves', 1, '1 h')");
$s->sql("SELECT count(fleetlog.fail_request(request, lease, 'no idea')) FROM fleetlog.next_request('valves', 1)");
my ($leased, $lease) = split /\|/, $s->sql("SELECT ROW(c.requests, r.request_shard, r.request_offset)::fleetlog.log_position, r.lease FROM fleetlog.loop_request r JOIN fleetlog.loop_config c USING (loop) WHERE r.leased_until > now()");
cmp_ok($s->sql('SELECT count(*) FROM fleetlog.loop_waiting'), '>', 5, 'readings wait behind requests');
# The runner is at rest: nothing changes between the look and the dump.
$s->sql('SELECT fleetlog.pause()');
$s->wait_for("SELECT count(*) FROM fleetlog.stat_worker WHERE kind IN ('runner', 'commands')", 0, 'the workers to rest');

my $all = join ' || ', map { "coalesce((SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM fleetlog.$_ t), '-')" }
  qw(loop_config loop_policy loop_policy_range loop_position loop_response_position loop_state loop_request loop_waiting loop_pin loop_decision_link loop_decision_stream
  dataset_config dataset_model dataset hold_config hold_range_config shadow_model_config shadow_model_range shadow_model_request loop);
my $said = join ' || ', (map { "coalesce((SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM $_ t), '-')" } "fleetlog.replay('valves')", "fleetlog.replay('copies')",
    "fleetlog.shadow_decisions('valves', 'mk2')", "fleetlog.compare_shadow_model('valves', 'mk2')", "fleetlog.explain_decision('acme/d1', now(), '1 day')", "fleetlog.export_dataset('march')"),
  "(SELECT sum((ok)::int) FROM fleetlog.verify_dataset('march'))";
my @before = map { $s->sql("SELECT $_") } $all, $said;
is($s->sql("SELECT string_agg(DISTINCT verdict, ', ') FROM fleetlog.replay('valves')"), 'same', 'all is replayed equal');
my $decided = $s->sql('SELECT count(*) FROM valves_decision');

sub dump_of
{
    my ($name, @options) = @_;
    my $file = PostgreSQL::Test::Utils::tempdir() . "/$name";
    my $err = '';
    ok(IPC::Run::run([ 'pg_dump', @options, '-f', $file, '-d', $s->node->connstr('fleetlog') ], '2>', \$err), "pg_dump: $name") or diag($err);
    return $file;
}
my $folder = dump_of('folder', '-Fd', '-j2');
my $plain = dump_of('plain');
$s->node->stop;

sub check
{
    my ($t, $what) = @_;

    is($t->sql("SELECT $all"), $before[0], "$what: every row is as it was");
    is($t->sql("SELECT $said"), $before[1], "$what: replay, comparison, explanation and data set say the same");
    is($t->sql("SELECT string_agg(proname || ' ' || proowner::regrole, ', ' ORDER BY proname) FROM pg_proc WHERE proname LIKE '\\_policy\\_valves%'"), '_policy_valves_1 author, _policy_valves_2 author', "$what: policies are their owner's");
    is($t->sql('SET ROLE staff; SELECT count(*) FROM valves_decision'), $decided, "$what: row-level rules hold");
    like($t->sql_error("SELECT fleetlog.trim_head('telemetry', 0, 10, NULL)"), qr/LF108/, "$what: pins and data sets hold");
    like($t->sql_error("SELECT fleetlog.drop_stream('telemetry')"), qr/2BP01.*loop/s, "$what: the stream is the loops'");

    $t->sql('SELECT fleetlog.resume()');
    $t->wait_for("SELECT count(*) FROM fleetlog.stat_worker WHERE kind = 'runner'", 1, 'the runner');
    like($t->sql("SELECT fleetlog.answer('$leased', $lease, '{\"said\": \"to the copy\"}')"), qr/valves_response/, "$what: a lease that was given before is answered");
    readings($t, 91, 120);
    answer_all($t);
    is($t->sql("SELECT string_agg(DISTINCT verdict, ', ') FROM fleetlog.replay('$_')"), 'same', "$what: $_ is replayed equal, over the restore") for 'valves', 'copies';
    for my $loop ('valves', 'copies')
    {
        is($t->sql("SELECT count(*) || ' ' || count(DISTINCT (j -> 'reading' ->> 'shard', j -> 'reading' ->> 'offset')) FROM (SELECT fleetlog.json(payload) AS j FROM ${loop}_decision) x"), '120 120', "$what: $loop has decided each reading once");
        is($t->sql("SELECT count(*) FROM (SELECT lag(j -> 'state') OVER (PARTITION BY key ORDER BY (j -> 'reading' ->> 'offset')::bigint) AS s, j -> 'state_before' AS b FROM (SELECT key, fleetlog.json(payload) AS j FROM ${loop}_decision) x) y WHERE s IS DISTINCT FROM b AND NOT (s IS NULL AND b = 'null')"), 0, "$what: ... from the state that the one before it left");
    }
    is($t->sql("SELECT count(*) - count(DISTINCT c ->> 'id') FROM valves_decision, jsonb_array_elements(fleetlog.json(payload) -> 'commands') c"), 0, "$what: no command is twice");
    cmp_ok($t->sql("SELECT count(fleetlog.answer_shadow('valves', 'mk2', request, lease, jsonb_build_object('said', 7))) FROM fleetlog.next_shadow_request('valves', 'mk2', 100)"), '>', 10, "$what: the shadow model goes on");
    is($t->sql("SELECT detail ->> 'waiting' FROM fleetlog.compare_shadow_model('valves', 'mk2') WHERE part = 'all'"), 0, "$what: ... and is compared");
    $t->sql("SELECT fleetlog.drop_dataset('march'), fleetlog.drop_loop('valves'), fleetlog.drop_loop('copies')");
    is($t->sql("SELECT (SELECT count(*) FROM fleetlog.hold_config) + (SELECT count(*) FROM pg_proc WHERE proname LIKE '\\_policy\\_%\\_1')"), 0, "$what: it all goes as it came");
    is($t->crashes, '', "$what: no crash");
    $t->node->stop;
    return;
}

# As docs/operate.md says: paused, in parallel.
{
    my $t = FleetlogTest->new('copy', no_wait => 1);
    my $err = '';
    $t->sql('SELECT fleetlog.pause(); CREATE ROLE author; CREATE ROLE staff; GRANT fleetlog_admin TO author');
    ok(IPC::Run::run([ 'pg_restore', '-j2', '--exit-on-error', '-d', $t->node->connstr('fleetlog'), $folder ], '2>', \$err), 'pg_restore') or diag($err);
    check($t, 'pg_restore');
}
# By psql, with the extension already there.
{
    my $t = FleetlogTest->new('text', no_wait => 1);
    my $err = '';
    $t->sql('SELECT fleetlog.pause(); CREATE ROLE author; CREATE ROLE staff; GRANT fleetlog_admin TO author');
    ok(IPC::Run::run([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $t->node->connstr('fleetlog'), '-f', $plain ], '>', '/dev/null', '2>', \$err), 'psql') or diag($err);
    check($t, 'psql');
}
done_testing();
