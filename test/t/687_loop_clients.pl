# D1, D2, D4: models outside that are clients of others: kcat and confluent-kafka, mosquitto_sub and mosquitto_pub, paho.  They read the
# stream of requests and answer by its headers, or by a record that names the request.  Of the answers by SQL, Kafka and MQTT to
# one request the first that is committed counts, and the others are counted as late; what is late, malformed, foreign or
# about nothing is counted and changes nothing.  The same answers a shadow model.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use JSON::PP ();
use FleetlogTest;

sub has { my ($program) = @_; return scalar grep { -x "$_/$program" } split /:/, $ENV{PATH}; }
sub has_module { my ($module) = @_; return !system("/usr/bin/python3 -c 'import $module' 2>/dev/null"); }
plan skip_all => 'kcat is not here' unless has('kcat');
plan skip_all => 'mosquitto_sub is not here' unless has('mosquitto_sub');
plan skip_all => 'confluent-kafka and paho are not here' unless has_module('confluent_kafka') && has_module('paho.mqtt.client');

my $source = $ENV{FLEETLOG_SOURCE} // '.';
my $json = JSON::PP->new->canonical;
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $s = FleetlogTest->new('loop_clients', conf => "fleetlog.kafka_listen = '127.0.0.1:$port'\nfleetlog.kafka_rebalance_delay = 0\n");
$s->fleet(devices => 6, shards => 2);
$s->sql(<<'SQL');
CREATE FUNCTION p(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN response IS NULL THEN jsonb_build_object('ask', jsonb_build_object('v', (fleetlog.json(reading.payload) ->> 'v')::int))
		ELSE jsonb_build_object('decisions', jsonb_build_array(response)) END
$$;
SELECT fleetlog.create_loop('valves', 'telemetry', 'p'::regproc, 'm', '1');
SELECT fleetlog.mount('acme/models/request/', 'valves_request'), fleetlog.mount('acme/models/response/', 'valves_response');
SELECT fleetlog.allow('acme', 'publish', 'acme/models/#'), fleetlog.allow('acme', 'subscribe', 'acme/models/#');
CREATE ROLE model LOGIN PASSWORD 'pw-model';
GRANT SELECT ON valves_request TO model;
GRANT INSERT ON valves_response TO model;
SQL
$s->wait_for("SELECT count(*) >= 1 FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", 't', 'the Kafka door');

# Runs a client to its end: what it printed.
sub run
{
    my ($in, @command) = @_;
    my ($out, $err) = ('', '');

    IPC::Run::run([ 'timeout', $FleetlogTest::TIMEOUT, @command ], '<', \$in, '>', \$out, '2>', \$err) or BAIL_OUT("@command[0 .. 3]: " . substr($err, -300) =~ s/\n/ /gr);
    return $out;
}
my @login = ('-X', 'security.protocol=sasl_plaintext', '-X', 'sasl.mechanisms=SCRAM-SHA-256', '-X', 'sasl.username=model', '-X', 'sasl.password=pw-model');
sub kcat { my ($in, @args) = @_; return run($in, 'kcat', '-b', "127.0.0.1:$port", @login, @args); }
my @mqtt = ('-h', '127.0.0.1', '-p', $s->port, '-u', 'acme/d6', '-P', 'pw-d6', '-V', '5', '-q', '1');

my $sent = 0;
sub reading { my ($device) = @_; $sent++; $s->sql("SELECT fleetlog.append('telemetry', '$device', '{\"v\": $sent}', device => '$device', tenant => 'acme')"); return $sent; }
sub pending { my ($n) = @_; $s->wait_for("SELECT sum(pending) FROM fleetlog.stat_loop", $n, "$n requests"); return; }
sub decided { my ($device) = @_; $s->wait_for("SELECT sum(pending + waiting + lag) FROM fleetlog.stat_loop", 0, 'all to be decided'); return $s->sql("SELECT fleetlog.json(payload) -> 'decisions' -> 0 FROM valves_decision WHERE key = 'acme/$device' ORDER BY log_offset DESC LIMIT 1"); }
sub all_taken { $s->wait_for("SELECT (SELECT sum(log_offset) FROM fleetlog.loop_response_position) = (SELECT count(*) FROM valves_response)", 't', 'all answers to be taken'); return; }
sub counts { return $s->sql('SELECT sum(late_answers), sum(malformed_answers) FROM fleetlog.stat_loop'); }

# ---- kcat ----

my $v = reading('d1');
pending(1);
my ($request) = map { $json->decode($_) } split /\n/, kcat('', '-C', '-q', '-e', '-o', 'beginning', '-t', 'valves_request', '-J');
my %headers = @{ $request->{headers} };
is("$request->{key} " . $json->encode($json->decode($request->{payload})->{ask}), qq(acme/d1 {"v":$v}), 'kcat reads a request');
is($headers{'correlation-data'}, "$request->{partition}:$request->{offset}", 'whose header names it');
like($headers{'response-topic'}, qr{^acme/models/response/acme/d1$}, 'and where an answer goes');
kcat(qq({"x": 1}\n), '-P', '-t', 'valves_response', '-k', 'acme/d1', '-H', "correlation-data=$headers{'correlation-data'}");
is(decided('d1'), '{"x": 1}', 'and answers by the header');
reading('d1');
pending(1);
my ($at) = split /\n/, $s->sql("SELECT jsonb_build_object('shard', request_shard, 'offset', request_offset) FROM fleetlog.loop_request");
kcat(qq({"request": $at, "response": {"x": 2}}\n), '-P', '-t', 'valves_response');
is(decided('d1'), '{"x": 2}', 'or by a record that names the request, whatever its key');

# ---- mosquitto_sub, mosquitto_pub ----

my ($out, $err) = ('', '');
my $sub = IPC::Run::start([ 'mosquitto_sub', @mqtt, '-t', 'acme/models/request/#', '-F', '%R|%D|%p' ], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
$s->wait_for("SELECT count(*) FROM fleetlog.stat_connection WHERE device = 'd6' AND subscriptions > 0", 1, 'mosquitto_sub to subscribe');
$v = reading('d2');
FleetlogTest::wait_until(sub { $sub->pump_nb; $out =~ /\n/ }, 'mosquitto_sub to have the request');
my ($topic, $correlation, $payload) = split /\|/, $out;
is("$topic " . $json->encode($json->decode($payload)->{ask}), qq(acme/models/response/acme/d2 {"v":$v}), 'mosquitto_sub has a request, and where to answer');
$sub->kill_kill;
run('', 'mosquitto_pub', @mqtt, '-t', $topic, '-m', '{"x": 3}', '-D', 'publish', 'correlation-data', $correlation);
is(decided('d2'), '{"x": 3}', 'mosquitto_pub answers');

# ---- what is no answer ----

my ($late, $malformed) = split /\|/, counts();
reading('d3');
pending(1);
($at, my $which) = split /\|/, $s->sql("SELECT jsonb_build_object('shard', request_shard, 'offset', request_offset), request_shard || ':' || request_offset FROM fleetlog.loop_request");
sub by_kafka { my ($value, @more) = @_; kcat("$value\n", '-P', '-t', 'valves_response', '-k', 'k', @more); return; }
sub by_mqtt { my ($value, @correlation) = @_; run('', 'mosquitto_pub', @mqtt, '-t', 'acme/models/response/acme/d3', '-m', $value, @correlation ? ('-D', 'publish', 'correlation-data', @correlation) : ()); return; }
my $deep = '[' x 20_000;
my @malformed = (
    [ 'no JSON', 'no json', $which ], [ 'nested too deep', $deep, $which ], [ 'half of a text', '{"x": ', $which ],
    [ 'a NUL in a text', '{"x": "\u0000"}', $which ], [ 'a number beyond all', '{"x": 1e999999}', $which ],
    [ 'no correlation data', '{"x": 9}' ], [ 'a position that is none', '{"x": 9}', 'x:y' ], [ 'one too large', '{"x": 9}', '9999999999:99999999999999999999' ], [ 'a negative one', '{"x": 9}', '-1:0' ],
    [ 'a request that is a number', '{"request": 17, "response": 1}' ], [ 'one without an offset', '{"request": {"shard": 0}, "response": 1}' ],
    [ 'a lease that is no number', qq({"request": $at, "lease": [1], "response": 1}) ], [ 'an end that is the runner\'s to say', qq({"request": $at, "unanswered": true}) ]);
my @late = (
    [ 'a request of the past', '{"x": 9}', '0:0' ], [ 'a request that was never asked', '{"x": 9}', '0:4711' ], [ 'a shard that is none', '{"x": 9}', '77:0' ],
    [ 'a lease that was not given', qq({"request": $at, "lease": 4711, "response": 1}) ]);
for my $case (@malformed, @late)
{
    my ($what, $value, @correlation) = @$case;
    by_kafka($value, @correlation ? ('-H', "correlation-data=$correlation[0]") : ());
    by_mqtt($value, @correlation);
}
# Only Kafka can say these.
by_kafka('{"x": 9}', '-H', 'correlation-data');
by_kafka('{"x": 9}', '-H', "correlation-data=\xff\xfe");
kcat("k|\n", '-P', '-t', 'valves_response', '-Z', '-K', '|', '-H', "correlation-data=$which");
$late += 2 * @late;
$malformed += 2 * @malformed + 3;
$s->wait_for('SELECT sum(late_answers), sum(malformed_answers) FROM fleetlog.stat_loop', "$late|$malformed", 'all to be counted');
is(counts(), "$late|$malformed", scalar(@malformed) . ' malformed answers and ' . scalar(@late) . ' late ones by each of kcat and mosquitto_pub are counted');
is($s->sql("SELECT sum(pending) FROM fleetlog.stat_loop"), 1, 'and answer nothing');
# Foreign: who may not write is refused, and nothing of it is in the stream.
my $answers = $s->sql('SELECT count(*) FROM valves_response');
$s->sql("CREATE ROLE other LOGIN PASSWORD 'pw-other'; GRANT SELECT ON valves_response TO other; SELECT fleetlog.create_tenant('evil', 'evil/'), fleetlog.create_device('d1', 'evil', password => 'pw')");
ok(!IPC::Run::run([ 'kcat', '-b', "127.0.0.1:$port", map({ s/model$/other/r } @login), '-P', '-t', 'valves_response', '-H', "correlation-data=$which", '-X', 'message.timeout.ms=5000' ], '<', \'{"x": 9}', '>', \$out, '2>', \$err), 'a role without the right');
my $evil = FleetlogTest::Mqtt->open($s->port);
$evil->login(client_id => 'evil', user => 'evil/d1', password => 'pw');
isnt($evil->publish_acked('acme/models/response/acme/d3', '{"x": 9}', properties => [ [ 9, $which ] ]), 0, 'a device of another tenant');
like($s->sql_error("SET ROLE other; SELECT fleetlog.answer((SELECT ROW('valves_request'::regclass, 0, 0)::fleetlog.log_position), NULL, '9')"), qr/permission denied/, 'a role by SQL');
is($s->sql('SELECT count(*) FROM valves_response'), $answers, 'leave nothing');
by_mqtt('{"x": 4}', $which);
is(decided('d3'), '{"x": 4}', 'the right one is taken');

# ---- a race: SQL, Kafka and MQTT answer the same requests ----

sub model
{
    my (@args) = @_;
    my %m = (in => '', out => '', err => '');
    $m{run} = IPC::Run::start([ '/usr/bin/python3', '-B', "$source/test/interop/model.py", @args ], '<', \$m{in}, '>', \$m{out}, '2>', \$m{err}, IPC::Run::timeout(2 * $FleetlogTest::TIMEOUT));
    FleetlogTest::wait_until(sub { $m{run}->pump_nb; die $m{err} if !$m{run}->pumpable; $m{out} =~ /^ready$/m }, "the model @args[0 .. 1]");
    return \%m;
}
sub has_said { my ($m, $n) = @_; FleetlogTest::wait_until(sub { $m->{run}->pump_nb; scalar(() = $m->{out} =~ /^\d+:\d+$/mg) >= $n }, "$n answers of a model"); return; }
sub stop_model { my ($m) = @_; $m->{run}->finish; is($m->{err}, '', 'the model has ended well'); return; }

my $before = $s->sql('SELECT count(*) FROM valves_request');
my $kafka = model('kafka', "127.0.0.1:$port", 'model', 'pw-model', 'valves_request', 'valves_response', 'kafka');
# Its group begins with the first request.
has_said($kafka, $before);
my $paho = model('mqtt', '127.0.0.1:' . $s->port, 'acme/d5', 'pw-d5', 'acme/models/request/#', '-', 'mqtt');
all_taken();
$late = $s->sql('SELECT sum(late_answers) FROM fleetlog.stat_loop');
my $answered = $s->sql('SELECT count(*) FROM valves_response');
my $N = 150;
my $sql = $s->start_sql(<<"SQL");
DO \$\$ DECLARE r record; n int := 0; last timestamptz := clock_timestamp(); BEGIN
	LOOP
		FOR r IN SELECT * FROM fleetlog.next_request('valves', 5) LOOP
			COMMIT;
			n := n + 1;
			-- It thinks now and then, and others are first.
			PERFORM pg_sleep(random() * 0.02);
			BEGIN PERFORM fleetlog.answer(r.request, r.lease, jsonb_build_object('x', (r.ask ->> 'v')::int * 2, 'by', 'sql')); EXCEPTION WHEN SQLSTATE 'LF601' THEN NULL; END;
			COMMIT;
			last := clock_timestamp();
		END LOOP;
		COMMIT;
		EXIT WHEN (SELECT count(*) FROM valves_request) >= $before + $N AND NOT EXISTS (SELECT FROM fleetlog.loop_request);
		PERFORM pg_sleep(0.002);
	END LOOP;
END \$\$;
SQL
for (1 .. $N / 6) { $s->sql(join '', map { $sent++; "SELECT fleetlog.append('telemetry', 'd$_', '{\"v\": $sent}', device => 'd$_', tenant => 'acme');" } 1 .. 6); }
has_said($kafka, $before + $N);
has_said($paho, $N);
my ($rc, undef, $errors) = $s->finish_sql($sql);
is("$rc $errors", '0 ', 'the model by SQL is done');
decided('d1');
stop_model($_) for $kafka, $paho;
all_taken();

my $winners = $s->sql(<<SQL);
SELECT string_agg(by || ' ' || n, ', ' ORDER BY by) FROM (SELECT j #>> '{decisions,0,by}' AS by, count(*) AS n FROM valves_decision, fleetlog.json(payload) j WHERE j #> '{decisions,0}' ? 'by' GROUP BY 1) x
SQL
note("who was first: $winners");
is($s->sql(<<'SQL'), "$N|$N|t", 'each request was decided about once, with an answer that was given to it');
SELECT count(*), count(DISTINCT j ->> 'request'), bool_and((j #>> '{decisions,0,x}')::int = 2 * (SELECT (fleetlog.json(q.payload) #>> '{ask,v}')::int FROM valves_request q WHERE q.shard = (j #>> '{request,shard}')::int AND q.log_offset = (j #>> '{request,offset}')::bigint))
FROM valves_decision, fleetlog.json(payload) j WHERE j #> '{decisions,0}' ? 'by'
SQL
# Every answer is in the stream but those that answer() refused: all but one to each request are late.
my $given = $s->sql("SELECT count(*) FROM valves_response") - $answered;
my $by_sql = $s->sql("SELECT count(*) FROM valves_response WHERE fleetlog.json(payload) ? 'lease'");
cmp_ok($given, '>=', 2 * $N, "$given answers are in the stream, $by_sql of them by SQL");
my $refused = $s->sql("SELECT fleetlog._loop_refused('valves', 0)");
is($s->sql('SELECT sum(late_answers) FROM fleetlog.stat_loop') - $late, $given - $N + $refused, "all but the first of each request are counted, $refused of them were refused");
# Where no answer() was accepted, the first in its shard counts.
is($s->sql(<<'SQL'), 0, 'none came before the one that counts, in its shard');
WITH a AS (SELECT r.shard, r.log_offset, fleetlog.json(r.payload) ? 'lease' AS sql, x.request_shard, x.request_offset FROM valves_response r, fleetlog._loop_parse_response(ROW(r.*)::fleetlog.log_record) x),
	d AS (SELECT (j #>> '{request,shard}')::int AS request_shard, (j #>> '{request,offset}')::bigint AS request_offset, (j #>> '{response,shard}')::int AS shard, (j #>> '{response,offset}')::bigint AS log_offset
		FROM valves_decision, fleetlog.json(payload) j WHERE j #> '{decisions,0}' ? 'by')
SELECT count(*) FROM d JOIN a USING (request_shard, request_offset, shard) JOIN a w ON w.shard = d.shard AND w.log_offset = d.log_offset WHERE a.log_offset < d.log_offset AND NOT w.sql
SQL

# ---- shadow models, which do not say what the others said: one by Kafka, one by MQTT ----

my $done = $s->sql('SELECT count(*) FROM valves_decision');
$s->sql(<<'SQL');
SELECT fleetlog.create_shadow_model('valves', 'k', 'm', '2', from_ts => '-infinity'), fleetlog.create_shadow_model('valves', 'm', 'm', '2');
SELECT fleetlog.mount('acme/shadow/', 'valves_shadow_m'), fleetlog.allow('acme', 'publish', 'acme/shadow/#');
GRANT INSERT ON valves_shadow_k TO model;
SQL
$kafka = model('kafka', "127.0.0.1:$port", 'model', 'pw-model', 'valves_request', 'valves_shadow_k', 'shadow');
$paho = model('mqtt', '127.0.0.1:' . $s->port, 'acme/d5', 'pw-d5', 'acme/models/request/#', 'acme/shadow/answers', 'shadow');
reading("d$_") for 1 .. 6;
pending(6);
has_said($kafka, $before + $N + 6);
has_said($paho, 6);
sub shadow { my ($name, $what) = @_; return $s->sql("SELECT sum(lag), sum(pending), sum(late_answers), sum(malformed_answers) FROM fleetlog.stat_shadow_model WHERE name = '$name'"); }
$s->wait_for("SELECT sum(lag + pending) FROM fleetlog.stat_shadow_model WHERE name = '$_'", 0, "shadow $_ to have answered") for qw(k m);
is(shadow('k'), '0|0|0|0', 'all of its answers by Kafka are taken');
is(shadow('m'), '0|0|0|0', 'and those by MQTT');
is($s->sql("SELECT sum(pending) FROM fleetlog.stat_loop"), 6, 'to the loop they are none');
is($s->sql("SELECT count(*) FROM fleetlog.next_shadow_request('valves', 'k')"), 0, 'what was answered is given to nobody');
is($s->sql("SELECT compared, same, detail FROM fleetlog.compare_shadow_model('valves', 'm') WHERE part = 'all'"), '0|0|{"failed": 0, "waiting": 6, "unanswered": 0, "reading gone": 0}', 'the loop has not decided');
# What answers nothing, or once more; then SQL, after and before an answer of Kafka.
my $shadow_answer = sub { my ($which) = @_; kcat(qq({"x": 7}\n), '-P', '-t', 'valves_shadow_k', '-H', "correlation-data=$which"); };
$shadow_answer->($_) for '0:0', '0:4711', '77:0', 'nothing';
$s->wait_for("SELECT sum(late_answers), sum(malformed_answers) FROM fleetlog.stat_shadow_model WHERE name = 'k'", '3|1', 'what answers nothing to be counted');
is(shadow('k'), '0|0|3|1', 'late and malformed answers are counted');
stop_model($_) for $kafka, $paho;
$s->sql("SELECT count(fleetlog.answer(ROW('valves_request', request_shard, request_offset)::fleetlog.log_position, NULL, '{\"x\": 0}')) FROM fleetlog.loop_request");
decided('d1');
for my $first ('sql', 'kafka')
{
    reading('d1');
    pending(1);
    my ($r, $lease, $where) = split /\|/, $s->sql("SELECT request, lease, (request).shard || ':' || (request).log_offset FROM fleetlog.next_shadow_request('valves', 'k')");
    my $by_sql = "SELECT fleetlog.answer_shadow('valves', 'k', '$r', $lease, '{\"x\": 6}')";
    my $late = $s->sql("SELECT sum(late_answers) FROM fleetlog.stat_shadow_model WHERE name = 'k'");
    if ($first eq 'sql') { $s->sql($by_sql); $shadow_answer->($where); }
    else
    {
        $shadow_answer->($where);
        $s->wait_for("SELECT sum(pending) FROM fleetlog.stat_shadow_model WHERE name = 'k'", 0);
        like($s->sql_error($by_sql), qr/LF601/, 'Kafka was first: SQL is refused');
    }
    $s->wait_for("SELECT sum(late_answers) - $late FROM fleetlog.stat_shadow_model WHERE name = 'k'", $first eq 'sql' ? 1 : 0, 'the other to be counted');
    $s->sql("SELECT count(fleetlog.answer(ROW('valves_request', request_shard, request_offset)::fleetlog.log_position, NULL, '{\"x\": 0}')) FROM fleetlog.loop_request");
    decided('d1');
    is($s->sql("SELECT response -> 'x' FROM fleetlog.shadow_decisions('valves', 'k') WHERE (request).shard || ':' || (request).log_offset = '$where'"), $first eq 'sql' ? 6 : 7, "$first was first, and counts");
}
is($s->sql("SELECT compared, same FROM fleetlog.compare_shadow_model('valves', 'm') WHERE part = 'all'"), '6|0', 'the comparison has what was answered by MQTT');
is($s->sql("SELECT compared FROM fleetlog.compare_shadow_model('valves', 'k') WHERE part = 'all'"), $before + $N + 8, 'and by Kafka');
is($s->sql('SELECT count(*) FROM valves_decision'), $done + 8, 'nothing of it is a decision');
is($s->sql("SELECT string_agg(DISTINCT verdict, ' ') FROM fleetlog.replay('valves')"), 'same', 'replay finds every decision the same');
is($s->crashes, '', 'no crash');
done_testing();
