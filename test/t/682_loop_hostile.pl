# D2: policies and models that mean harm stop their own shard, with an SQLSTATE and the reading in stat_loop, and nothing else: other
# loops go on, and with another policy every reading is decided once.  Answers that come twice, late, with a guessed lease, for
# another loop's request, or as anything but an answer are refused or counted, and the first one that was committed counts.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('hostile', conf => "fleetlog.loop_policy_timeout = '300ms'\n");
$s->fleet(devices => 2);
$s->sql(<<'SQL');
CREATE FUNCTION good(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RETURN jsonb_build_object('decisions', jsonb_build_array(fleetlog.text(reading.payload)));
END $$;
CREATE FUNCTION asks(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RETURN CASE WHEN response IS NULL THEN '{"ask": {}}' ELSE jsonb_build_object('decisions', jsonb_build_array(response)) END;
END $$;
CREATE TABLE noted (what text);
SELECT fleetlog.create_loop('witness', 'telemetry', 'good'::regproc, 'm', '1');
SQL

sub reading { my ($text) = @_; $s->sql("SELECT fleetlog.append('telemetry', 'k', convert_to('$text', 'UTF8'))"); return; }
sub decided { my ($loop) = @_; return $s->sql("SELECT string_agg(fleetlog.json(payload) -> 'decisions' ->> 0, ' ' ORDER BY log_offset) FROM ${loop}_decision"); }
sub all_read { $s->wait_for("SELECT sum(lag) FROM fleetlog.stat_loop WHERE loop = '$_[0]'", 0, "$_[0] to have read"); return; }

# ---- policies ----

my @all;
my %bad = (
    'raises' => [ "RAISE EXCEPTION 'no' USING ERRCODE = 'XX001';", qr/^XX001: no/ ],
    'raises megabytes' => [ "RAISE EXCEPTION '%', repeat('x', 3000000);", qr/^P0001: x{100}/ ],
    'never ends' => [ 'LOOP NULL; END LOOP;', qr/^57014: / ],
    'never ends, and looks away' => [ 'LOOP BEGIN LOOP NULL; END LOOP; EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP;', qr/^57014: the policy did not end/ ],
    'returns megabytes' => [ "RETURN jsonb_build_object('decisions', jsonb_build_array(repeat('x', 3000000)));", qr/^LF105: / ],
    'returns something else' => [ "RETURN '[]';", qr/^LF603: / ],
    'commands nothing' => [ "RETURN '{\"commands\": [7]}';", qr/^LF603: / ],
    'writes' => [ "INSERT INTO public.noted VALUES ('x');", qr/^LF602: .*noted/ ],
    'writes by EXECUTE' => [ "EXECUTE 'INSERT INTO public.noted VALUES (1)';", qr/^LF602: .*noted|^0A000: / ],
    'reads' => [ 'PERFORM what FROM public.noted;', qr/^LF602: .*noted/ ],
    'takes another role' => [ 'SET ROLE fleetlog_admin;', qr/^0A000: SET / ],
    'takes another role by a function' => [ "PERFORM set_config('role', 'fleetlog_admin', true);", qr/^LF602: / ],
    'ends the transaction' => [ 'COMMIT;', qr/^2D000: / ],
    'ends the runner' => [ 'PERFORM pg_terminate_backend(pg_backend_pid());', qr/^LF602: / ],
    'appends' => [ "PERFORM fleetlog.append('public.telemetry', 'k', 'x');", qr/^LF602: / ],
    'listens' => [ 'NOTIFY fleet;', qr/^(25006|42501): |^0A000: / ],
    'recurses' => [ 'RETURN fleetlog._policy_bad_1(reading, response, state, at);', qr/^54001: |^LF602: |^42883: / ],
);
for my $name (sort keys %bad)
{
    my ($body, $error) = @{ $bad{$name} };
    $s->sql("CREATE OR REPLACE FUNCTION bad(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS \$\$ BEGIN $body RETURN NULL; END \$\$");
    $s->sql("SELECT fleetlog.create_loop('bad', 'telemetry', 'bad'::regproc, 'm', '1', requests => to_regclass('bad_request'), responses => to_regclass('bad_response'), decisions => to_regclass('bad_decision'))");
    (my $text = $name) =~ s/\W/-/g;
    reading($text);
    push @all, $text;
    $s->wait_for("SELECT state FROM fleetlog.stat_loop WHERE loop = 'bad'", 'stopped', "a policy that $name to be stopped");
    like($s->sql("SELECT error FROM fleetlog.stat_loop WHERE loop = 'bad'"), $error, "a policy that $name is stopped, and the error tells it");
    cmp_ok($s->sql("SELECT length(error) FROM fleetlog.loop_position WHERE loop = 'bad'"), '<', 2100, '... shortly');
    is($s->sql("SELECT error_offset = fleetlog.tail('telemetry', 0) - 1 FROM fleetlog.stat_loop WHERE loop = 'bad'"), 't', '... at the reading');
    $s->sql("SELECT fleetlog.alter_loop('bad', policy => 'good'::regproc)");
    all_read('bad');
    is(decided('bad'), join(' ', @all), '... which another policy decides');
    $s->sql("SELECT fleetlog.drop_loop('bad')");
}
all_read('witness');
is(decided('witness'), join(' ', @all), 'another loop has decided them all');
is($s->sql('SELECT count(*) FROM noted'), 0, 'and nothing was written');

# ---- commands that are refused tell so, shortly ----

$s->sql(q{CREATE OR REPLACE FUNCTION bad(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
	RETURN jsonb_build_object('commands', jsonb_build_array(jsonb_build_object('device', repeat('"', 200000), 'name', 'x'))); END $$;
    SELECT fleetlog.create_loop('commands', 'telemetry', 'bad'::regproc, 'm', '1')});
reading('c');
all_read('commands');
cmp_ok($s->sql("SELECT length(fleetlog.json(payload) -> 'commands' -> 0 ->> 'error') FROM commands_decision"), '<', 250, 'a command that is refused says why, shortly');
$s->sql("SELECT fleetlog.drop_loop('commands')");

# ---- models ----

$s->sql("SELECT fleetlog.create_loop(l, 'telemetry', 'asks'::regproc, 'm', '1', max_attempts => 2) FROM unnest(ARRAY['one', 'two']) l; CREATE ROLE model; GRANT SELECT ON one_request TO model; GRANT INSERT ON one_response TO model");
reading($_) for 1 .. 6;
# One key, one request at a time: what the first says decides about the first reading only.
sub lease { my ($loop, $time) = @_; $s->wait_for("SELECT pending FROM fleetlog.stat_loop WHERE loop = '$loop'", 1, "$loop to ask"); return split /\|/, $s->sql("SELECT request, lease FROM fleetlog.next_request('$loop', lease_time => '" . ($time // '1 h') . "')"); }
my ($q, $lease) = lease('one');
my ($q2, $lease2) = lease('two');
my $call = sub { my ($what) = @_; return $s->sql_error("SET ROLE model; SELECT fleetlog.$what"); };
like($call->("answer('$q', $_, '{}')"), qr/22023.*was not given/s, "lease $_ was not given") for $lease + 1000, $lease2, 0, -1, '9223372036854775807';
like($call->("answer('$q2', $lease2, '{}')"), qr/42501/, "another loop's request");
like($call->("answer('$q', $lease, NULL)"), qr/22004/, 'no answer is none');
like($call->("answer(ROW('one_request', 0, 99), $lease, '{}')"), qr/22023/, 'a request that was never asked');
like($call->("answer(ROW('one_request', 7, 0), $lease, '{}')"), qr/22023/, '... in a shard that is not there');
like($call->("answer(ROW('telemetry', 0, 0), $lease, '{}')"), qr/42704/, '... in a stream of other things');
like($call->("answer(NULL, $lease, '{}')"), qr/42704|22004/, '... nowhere');
like($call->("answer('$q', $lease, to_jsonb(repeat('x', 3000000)))"), qr/LF105/, 'megabytes');
is($s->sql("SELECT leased FROM fleetlog.stat_loop WHERE loop = 'one'"), 1, 'nothing of it ends the lease');
is($s->sql("SET ROLE model; SELECT (fleetlog.answer('$q', $lease, '{\"n\": 1}')).log_offset"), 0, 'the answer');
like($call->("answer('$q', $lease, '{\"n\": 2}')"), qr/LF601/, 'another is late');
like($call->("fail_request('$q', $lease, 'no')"), qr/LF601/, 'so is giving it back');

# What stands in the stream and is no answer is counted, whatever it is.
($q, $lease) = lease('one');
my ($offset) = $q =~ /,(\d+)\)$/;
my @odd = ("'no json'", q{'{"request": {"shard": 0, "offset": 99999999999999999999}, "response": 1}'}, q{'{"request": [], "response": 1}'}, qq{'{"request": "0:$offset", "lease": {"a": 1}, "response": 1}'},
    qq{'{"request": "0:$offset", "unanswered": true}'}, "repeat('[', 500000)", "repeat('{\"a\":', 200000)", "'\"\\u0000\"'", "'\\xff'", "NULL");
$s->sql("SET ROLE model; SELECT fleetlog.append('one_response', 'k', " . ($_ =~ /^'\\x|NULL/ ? "$_\:\:bytea" : "convert_to($_, 'UTF8')") . ')') for @odd;
$s->wait_for("SELECT malformed_answers FROM fleetlog.stat_loop WHERE loop = 'one'", scalar @odd, 'all that is no answer to be counted');
$s->sql(qq{SET ROLE model; SELECT fleetlog.append('one_response', 'k', convert_to('{"request": "0:$offset", "lease": $_, "response": "stolen"}', 'UTF8'))}) for $lease + 500, $lease2;
$s->wait_for("SELECT late_answers FROM fleetlog.stat_loop WHERE loop = 'one'", 4, 'guessed leases to be counted with those that were refused');
is($s->sql("SELECT pending FROM fleetlog.stat_loop WHERE loop = 'one'"), 1, 'the request is pending still');
is($s->sql("SET ROLE model; SELECT fleetlog.fail_request('$q', $lease, repeat('x', 3000000))"), 't', 'it is given back, with a long story');
is($s->sql("SET ROLE model; SELECT fleetlog.fail_request('$q', $lease, 'again')"), 'f', '... once');
($q, my $again) = lease('one', '1 ms');
isnt($again, $lease, 'and given out under another number');
$s->wait_for(q{SELECT fleetlog.json(payload) -> 'decisions' -> 0 FROM one_decision WHERE log_offset = 1}, '{"unanswered": true}', 'the last lease to end it as unanswered');
like($call->("answer('$q', $lease, '{}')"), qr/LF601/, 'an answer after the end is late');
is($s->sql(q{SELECT fleetlog.json(payload) -> 'decisions' -> 0 FROM one_decision WHERE log_offset = 0}), '{"n": 1}', 'the first answer is the one that counts');
cmp_ok($s->sql("SELECT max(length(payload)) FROM one_response WHERE fleetlog.json(payload) ? 'attempts'"), '<', 1500, 'the story is short in the record');

# An answer after answer_timeout.
$s->sql("SELECT fleetlog.alter_loop('one', answer_timeout => '1 ms')");
$s->wait_for("SELECT count(*) FROM one_decision", 6, 'requests that nobody answers in time to end');
is($s->sql("SELECT count(*), sum(requests), sum(unanswered) FROM fleetlog.stat_loop WHERE loop = 'one'"), '1|6|5', 'each reading was asked about once, and decided once');
like($call->("answer(ROW('one_request', 0, 5), NULL, '{}')"), qr/LF601/, 'and an answer to one of them is late');
is($s->sql(q{SELECT string_agg(DISTINCT verdict, ', ') FROM fleetlog.replay('one')}), 'same', 'all of it is replayed equal');
is($s->sql("SELECT sum(pending) FROM fleetlog.stat_loop WHERE loop = 'two'"), 1, 'the other loop waits for its own answer');

is($s->crashes, '', 'no process crashed');
done_testing();
