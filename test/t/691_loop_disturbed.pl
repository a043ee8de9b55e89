# D2: a policy that is slow holds up neither other loops nor the order of its own; answers that are too large, that come at the same
# time or that retention removes before they were taken leave the request open for another; requests that are removed are
# answered all the same; a wall clock that is set back, or was ahead, puts nothing off: leases, ends of requests, state tables, the
# restart of a process.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Powercut;

# The server's clock is ours: seconds added to the time of day.
my $clock = PostgreSQL::Test::Utils::tempdir() . '/clock';
sub set_clock { my ($seconds) = @_; open my $f, '+<', $clock or die "$clock: $!"; syswrite $f, pack('q', $seconds); close $f; return; }
{ open my $f, '>', $clock or die "$clock: $!"; print $f pack('q', 0); close $f; }
$ENV{FL_CLOCK_FILE} = $clock;
my $shim = FleetlogTest::Powercut::build() . '/fl_clock.so';
sub with_clock { my ($start) = @_; local $ENV{LD_PRELOAD} = $shim; return $start->(); }
my $s = with_clock(sub { FleetlogTest->new('loop_disturbed', conf => 'fleetlog.loop_policy_timeout = 0') });
$s->fleet(devices => 4);
# It thinks about every reading for as long as a table says; even ones ask.
$s->sql(<<'SQL');
SELECT fleetlog.create_state('now'), fleetlog.create_stream('quick');
SELECT fleetlog.alter_mount('acme/', state => 'now', keep => 'last');
CREATE TABLE thinks AS SELECT 0::float8 AS seconds;
CREATE FUNCTION p(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
	v jsonb := fleetlog.json(reading.payload);
	n int := coalesce((state ->> 'n')::int, 0);
BEGIN
	PERFORM pg_sleep(seconds) FROM public.thinks WHERE v ->> 'v' <> '2' AND reading.key <> 'k';
	IF response IS NULL AND (v ->> 'v')::int % 2 = 0 THEN
		RETURN jsonb_build_object('ask', v);
	END IF;
	RETURN jsonb_build_object('decisions', jsonb_build_array(jsonb_build_object('v', v -> 'v', 'n', n, 'x', response)), 'state', jsonb_build_object('n', n + 1));
END $$;
SELECT fleetlog.create_loop('a_quick', 'quick', 'p'::regproc, 'm', '1', replayable => false);
SELECT fleetlog.create_loop('valves', 'telemetry', 'p'::regproc, 'm', '1', replayable => false, max_attempts => 2);
SQL
$s->wait_for("SELECT count(*) FROM fleetlog.stat_worker WHERE kind = 'runner' AND pid IS NOT NULL", 1, 'the runner');

sub readings
{
    my ($device, @v) = @_;
    $s->sql('BEGIN; ' . join('', map { "SELECT fleetlog.append('telemetry', 'acme/$device/v', '{\"v\": $_}', device => '$device', tenant => 'acme');" } @v) . 'COMMIT');
    return;
}
sub thinks { my ($seconds) = @_; $s->sql("UPDATE thinks SET seconds = $seconds"); return; }
sub quick { my ($v) = @_; $s->sql("SELECT fleetlog.append('quick', 'k', '{\"v\": $v}')"); return; }
sub decided { my ($device) = @_; return $s->sql("SELECT string_agg((x.d ->> 'v') || '/' || (x.d ->> 'n'), ' ' ORDER BY t.shard, t.log_offset) FROM valves_decision t, jsonb_array_elements(fleetlog.json(payload) -> 'decisions') x(d) WHERE key = 'acme/$device'"); }
sub in_order { my (@v) = @_; my $n = 0; return join ' ', map { "$_/" . $n++ } @v; }
sub lease { my ($time) = @_; $s->wait_for('SELECT count(*) > 0 FROM fleetlog.loop_request WHERE response_offset IS NULL', 't'); return split /\|/, $s->sql("SELECT request, lease FROM fleetlog.next_request('valves', 1, '" . ($time // '1 h') . "')"); }
sub all_decided { $s->wait_for("SELECT sum(pending + waiting + lag) FROM fleetlog.stat_loop", 0, 'all to be decided'); return; }

# ---- a slow policy ----

my @slow = map { 2 * $_ + 1 } 0 .. 499;
thinks(0.3);
readings('d1', @slow);
$s->wait_for("SELECT readings > 0 AND lag > 0 FROM fleetlog.stat_loop WHERE loop = 'valves'", 't', 'some of the slow readings to be decided');
quick(1);
$s->wait_for('SELECT count(*) FROM a_quick_decision', 1, 'another loop to decide');
cmp_ok($s->sql("SELECT lag FROM fleetlog.stat_loop WHERE loop = 'valves'"), '>', 0, 'another loop decides meanwhile');
thinks(0);
all_decided();
is(decided('d1'), in_order(@slow), 'each slow reading is decided once, in order');
# The same where they wait behind a request.
my @behind = (2, map { 2 * $_ + 1 } 0 .. 499);
readings('d2', @behind);
$s->wait_for("SELECT waiting FROM fleetlog.stat_loop WHERE loop = 'valves'", 500, 'readings to wait behind a request');
thinks(0.3);
my ($request, $lease) = lease();
$s->sql("SELECT fleetlog.answer('$request', $lease, '1')");
$s->wait_for("SELECT waiting BETWEEN 1 AND 499 FROM fleetlog.stat_loop WHERE loop = 'valves'", 't', 'some of them to be decided');
readings('d2', 101, 103);
quick(3);
$s->wait_for('SELECT count(*) FROM a_quick_decision', 2, 'another loop to decide');
cmp_ok($s->sql("SELECT waiting FROM fleetlog.stat_loop WHERE loop = 'valves'"), '>', 0, 'another loop decides while they wait for nothing but time');
with_clock(sub { $s->kill9_and_start });
thinks(0);
all_decided();
is(decided('d2'), in_order(@behind, 101, 103), 'in order with what came meanwhile, over a kill -9');

# ---- answers ----

readings('d3', 2);
($request, $lease) = lease();
like($s->sql_error("SELECT fleetlog.answer('$request', $lease, to_jsonb(repeat('x', 10 * 1024 * 1024)))"), qr/LF103|54000|record/, 'an answer of 10 MB is refused');
is($s->sql("SELECT pending, leased FROM fleetlog.stat_loop WHERE loop = 'valves'"), '1|1', 'and the request is as it was');
for my $first ('ROLLBACK', 'COMMIT')
{
    my ($one, $two) = ($s->session, $s->session);

    $one->query("BEGIN; SELECT fleetlog.answer('$request', $lease, '1')");
    $two->send("SELECT fleetlog.answer('$request', $lease, '2')", 'two');
    $s->wait_for("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'SELECT fleetlog.answer%'", 1, 'the second to wait for the first');
    $one->query($first);
    my $at = $two->take('two');
    if ($first eq 'COMMIT') { like($two->error, qr/already answered/, 'of two at the same time the second is refused'); }
    else { like($at, qr/valves_response/, 'where the first takes it back, the second counts'); }
    $_->quit for $one, $two;
    all_decided();
    is($s->sql("SELECT fleetlog.json(payload) #>> '{decisions,0,x}' FROM valves_decision WHERE key = 'acme/d3' ORDER BY log_offset DESC LIMIT 1"), $first eq 'COMMIT' ? 1 : 2, 'which is what is decided about');
    next if $first eq 'COMMIT';
    readings('d3', 4);
    ($request, $lease) = lease();
}

# ---- a transaction that is left open with a request ----

readings('d3', 8);
my $open = $s->session;
$s->wait_for('SELECT count(*) FROM fleetlog.loop_request', 1, 'the request');
my ($which) = $open->query("BEGIN; SELECT (request).shard || ':' || (request).log_offset FROM fleetlog.next_request('valves', 1)") =~ /(\d+:\d+)/;
sub publish { my ($to, $x) = @_; $s->sql("SELECT fleetlog.append('valves_response', 'k', '$x', headers => fleetlog.headers('{\"correlation-data\": \"$to\"}'))"); return; }
my $late = $s->sql("SELECT sum(late_answers) FROM fleetlog.stat_loop WHERE loop = 'valves'");
publish($which, 21);
publish($which, 22);
readings('d1', 1000);
$s->wait_for("SELECT count(*) FROM fleetlog.loop_request", 2, 'the request of another device');
publish($s->sql("SELECT request_shard || ':' || request_offset FROM fleetlog.loop_request WHERE key = 'acme/d1'"), 23);
$s->wait_for("SELECT count(*) FROM valves_decision WHERE key = 'acme/d1' AND fleetlog.json(payload) #>> '{decisions,0,x}' = '23'", 1, 'the other device to be decided');
is($s->sql("SELECT count(*), sum(cardinality(p.deferred)) FROM fleetlog.loop_request r, fleetlog.loop_response_position p WHERE r.responded_at IS NULL AND p.loop = 'valves'"), '1|2', 'who leaves a request in an open transaction holds up its device only');
$open->query('ROLLBACK');
$open->quit;
all_decided();
is($s->sql("SELECT fleetlog.json(payload) #>> '{decisions,0,x}' FROM valves_decision WHERE key = 'acme/d3' ORDER BY log_offset DESC LIMIT 1"), 21, 'then the first answer counts');
$s->wait_for("SELECT sum(late_answers) - $late FROM fleetlog.stat_loop WHERE loop = 'valves'", 1, 'the second to be late');

# ---- what retention removes ----

readings('d4', 2);
($request, $lease) = lease();
my $runner = $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'runner'");
kill 'STOP', $runner;
$s->sql("SELECT fleetlog.answer('$request', $lease, '\"gone\"')");
$s->sql("SELECT fleetlog.trim_head('valves_response', 0, fleetlog.tail('valves_response', 0), NULL), fleetlog.trim_head('valves_request', 0, fleetlog.tail('valves_request', 0), NULL)");
kill 'CONT', $runner;
$s->wait_for('SELECT count(*) FROM fleetlog.loop_request WHERE response_offset IS NULL', 1, 'the request to be open again');
$s->sql("SELECT fleetlog.answer('$request', $lease, '\"again\"')");
all_decided();
is($s->sql("SELECT fleetlog.json(payload) #>> '{decisions,0,x}' FROM valves_decision WHERE key = 'acme/d4'"), 'again', 'an answer that is removed before it was taken is none, and a request that is removed can be answered');

# ---- the clock ----

my $device = $s->device('d1');
sub now_is { my ($value) = @_; $device->publish_acked('acme/d1/kept', $value); $s->wait_for("SELECT fleetlog.text(payload) FROM now WHERE key = 'acme/d1/kept'", $value, "the state table to have $value"); return; }
now_is('before');
set_clock(86400);
cmp_ok($s->sql("SELECT extract(epoch FROM clock_timestamp()) - " . time), '>', 80000, 'the clock is a day ahead');
readings('d3', 6);
readings('d4', 8);
lease('30 s');
lease('30 s');
now_is('ahead');
$s->sql("SELECT fleetlog.alter_loop('valves', answer_timeout => '2 s')");
set_clock(0);
$runner = $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'state'");
is($s->sql("SELECT count(*) FROM fleetlog.next_request('valves', 5)"), 2, 'leases that were given by a clock that was set back are over');
$s->wait_for("SELECT sum(unanswered) FROM fleetlog.stat_loop WHERE loop = 'valves'", 2, 'requests to end by the clock as it is');
now_is('set back');
kill 'TERM', $runner;
$s->wait_for("SELECT count(*) FROM fleetlog.stat_worker WHERE kind = 'state' AND pid <> $runner", 1, 'a process to be started again');
now_is('started again');
all_decided();
is(decided('d3'), in_order(2, 4, 8, 6), 'every reading is decided once');
is($s->crashes, '', 'no crash');
done_testing();
