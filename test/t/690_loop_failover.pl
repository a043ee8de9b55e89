# D1, D2, H1: a synchronous standby is promoted while a loop runs.  What was acknowledged is decided exactly once and in order, also
# where the old primary had decided it and told nobody; no command reaches a device under two ids; leases of the old primary answer
# once; an answer that was acknowledged is the one that counts.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $rounds = $ENV{FLEETLOG_ROUNDS} || 2;
my $DEVICES = 4;
my $servers = 0;

sub add_standby
{
    my ($server) = @_;
    my $standby = $server->new_standby('server' . ++$servers);

    $standby->node->start;
    $server->wait_for('SELECT count(*) FROM pg_stat_replication', 1, 'the standby to be connected');
    $server->set_conf('synchronous_standby_names' => '*');
    $server->wait_for("SELECT bool_or(sync_state IN ('sync', 'quorum')) FROM pg_stat_replication", 't', 'the standby to be waited for');
    return $standby;
}

my $s = FleetlogTest->new('server0');
my $standby = add_standby($s);
$s->fleet(devices => $DEVICES, shards => 2, durability => 'quorum');
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
SELECT fleetlog.send_command('acme/d1', 'hello', '{}');
SQL
is($s->sql("SELECT string_agg(DISTINCT durability, ' ') FROM fleetlog.stream WHERE stream::text LIKE 'valves_%'"), 'quorum', 'the streams of a loop are as durable as its source');
$s->wait_for("SELECT to_regclass('fleetlog.command_log') IS NOT NULL");
$s->sql("SELECT fleetlog.alter_stream('fleetlog.command_log', durability => 'quorum')");

my $MODEL = q{DO $$ DECLARE r record; BEGIN FOR i IN 1 .. 400 LOOP
	FOR r IN SELECT * FROM fleetlog.next_request('valves', 3, '200 ms') LOOP IF random() < 0.7 THEN PERFORM fleetlog.answer(r.request, r.lease, to_jsonb(random())); END IF; END LOOP;
	COMMIT; PERFORM pg_sleep(0.01); END LOOP; END $$};
my $sent = 0;    # readings of each device that were acknowledged
my %had;         # commands that devices have got, by id

sub append_sql { my ($from, $to) = @_; return "SELECT count(fleetlog.append('telemetry', 'd' || d, convert_to('{\"v\": ' || v || '}', 'UTF8'), device => 'd' || d, tenant => 'acme')) FROM generate_series($from, $to) v, generate_series(1, $DEVICES) d"; }
sub readings { my ($n) = @_; $s->sql(append_sql($sent + 1, $sent + $n)); $sent += $n; return; }

sub listen_as
{
    my ($d) = @_;
    my $c = $s->device("d$d", client_id => "listen-$d");

    $c->subscribe([ [ "acme/cmd/d$d/req/set", 0 ] ]);
    return $c;
}

# What a device had before its connection ended, or within this time.
sub take_commands
{
    my ($c) = @_;
    for my $p ($c->messages(1_000_000, 1)) { $had{ FleetlogTest::Mqtt::property($p, 9) }{"$p->{topic} $p->{payload}"} = 1; }
    return;
}

# Three requests of devices of their own, leased for long: device => [request, lease].
sub leased
{
    my ($round) = @_;
    my %leases;

    $s->sql("SELECT fleetlog.append('telemetry', d || $round, '{\"v\": 2}', device => d || $round, tenant => 'acme') FROM unnest('{said,open,kept}'::text[]) d");
    $s->wait_for("SELECT sum(pending) FROM fleetlog.stat_loop", 3, 'three requests');
    for (split /\n/, $s->sql("SELECT rtrim((reading).device, '0123456789'), request, lease FROM fleetlog.next_request('valves', 3, '1 h')")) { my ($d, @r) = split /\|/; $leases{$d} = \@r; }
    return \%leases;
}
sub answer_sql { my ($r, $x) = @_; return "SELECT fleetlog.answer('$r->[0]', $r->[1], '$x')"; }
sub said_of { my ($device) = @_; return $s->sql("SELECT fleetlog.json(payload) #> '{decisions,0,x}' FROM valves_decision WHERE key = 'acme/$device'"); }

# The standby hears nothing any more: what is decided and answered from here on is known to the old primary only.
sub decide_alone
{
    my ($round, $leases) = @_;

    $s->wait_for("SELECT (SELECT sum(lag + waiting) FROM fleetlog.stat_loop) + (SELECT count(*) FROM fleetlog.loop_request WHERE key ~ '^acme/d')", 0, 'all to be decided');
    $s->stop_points('loop_before_append');
    readings(2);
    $s->wait_stopped_at('loop_before_append');
    my $pid = $s->sql('SELECT pid FROM pg_stat_replication');
    kill 'STOP', $pid;
    my ($told, $written) = ($s->session, $s->session);
    $told->send(answer_sql($leases->{open}, '"untold"'), 'told');
    $written->send(append_sql($sent + 1, $sent + 5), 'written');
    $s->stop_points('');
    $s->wait_for("SELECT count(*) > 0 FROM fleetlog.command c WHERE payload = to_jsonb($sent - 1)", 't', 'the old primary to decide');
    $s->wait_for("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query ~ '^SELECT (fleetlog.answer|count.fleetlog.append)'", 2, 'an answer and readings to wait for the standby');
    return ($pid, $told, $written);
}

sub one_round
{
    my ($round) = @_;
    my $alone = $round % 2;
    my $leases = leased($round);
    my @listening = map { listen_as($_) } 1 .. $DEVICES;

    $s->sql(answer_sql($leases->{said}, 1));
    readings(10);
    my $model = $s->start_sql($MODEL);
    my ($walsender, @open) = $alone ? decide_alone($round, $leases) : ();
    select(undef, undef, undef, rand(0.5)) unless $alone;
    $s->kill9;
    kill 'KILL', $walsender if $walsender;
    take_commands($_), $_->close for @listening;
    $_->quit for @open;
    eval { $s->finish_sql($model) };
    is($s->crashes, '', "round $round: no crash");

    $s = $standby;
    $s->node->promote;
    $standby = add_standby($s);
    $s->wait_for_mqtt;
    @listening = map { listen_as($_) } 1 .. $DEVICES;
    $s->wait_for("SELECT count(*) FROM fleetlog.stat_worker WHERE kind = 'runner' AND pid IS NOT NULL", 1, 'the runner');
    readings(2);

    # The answers that leases of the old primary stand for.
    $s->wait_for("SELECT count(*) FROM valves_decision WHERE key = 'acme/said$round'", 1, 'what was answered to be decided');
    is(said_of("said$round"), 1, "round $round: an answer that was acknowledged counts");
    like($s->sql_error(answer_sql($leases->{said}, 2)), qr/LF601/, 'and is not taken twice');
    is($s->sql("SELECT attempts, lease FROM fleetlog.loop_request WHERE key = 'acme/kept$round'"), "1|$leases->{kept}[1]", 'a lease is kept');
    for my $d ('open', 'kept')
    {
        $s->sql(answer_sql($leases->{$d}, 3));
        like($s->sql_error(answer_sql($leases->{$d}, 4)), qr/LF601/, "$d: a lease of the old primary answers once");
        $s->wait_for("SELECT count(*) FROM valves_decision WHERE key = 'acme/$d$round'", 1, 'the decision');
        is(said_of("$d$round"), 3, $alone || $d eq 'kept' ? 'which is what is decided about' : 'with what was acknowledged');
    }
    cmp_ok($s->sql("SELECT nextval('fleetlog.loop_lease_seq')"), '>', $s->sql("SELECT max((fleetlog.json(payload) ->> 'lease')::bigint) FROM valves_response"), 'leases of the new primary have other numbers');
    $s->wait_for(q{WITH a AS (SELECT count(fleetlog.answer(request, lease, to_jsonb(random()))) FROM fleetlog.next_request('valves', 100, '1 s'))
	SELECT NOT EXISTS (SELECT FROM a WHERE count > 0) AND (SELECT sum(pending + waiting + lag) FROM fleetlog.stat_loop) = 0}, 't', 'all to be decided');
    $s->wait_for("SELECT count(*) FROM fleetlog.command WHERE state = 'pending' AND name = 'set'", 0);
    take_commands($_), $_->disconnect for @listening;
    return;
}
one_round($_) for 1 .. $rounds;

my $all = $sent * $DEVICES;
my $own = "key ~ '^acme/d[0-9]+\$'";
is($s->sql("SELECT count(*) FROM telemetry WHERE device ~ '^d[0-9]'"), $all, 'every reading that was acknowledged is there, and no other');
is($s->sql("SELECT count(*), count(DISTINCT (j -> 'reading' ->> 'shard', j -> 'reading' ->> 'offset')) FROM valves_decision, fleetlog.json(payload) j WHERE $own"), "$all|$all", 'each was decided exactly once');
is($s->sql("SELECT count(*) FROM (SELECT (x.d ->> 'v')::int AS v, (x.d ->> 'n')::int AS n, row_number() OVER (PARTITION BY key ORDER BY d.shard, d.log_offset) AS r FROM valves_decision d, jsonb_array_elements(fleetlog.json(payload) -> 'decisions') x(d) WHERE $own) x WHERE v <> r OR n <> r - 1"), 0, 'in order, with the state that the one before left');
is($s->sql("SELECT count(*) = count(DISTINCT (j -> 'reading' ->> 'shard', j -> 'reading' ->> 'offset')) FROM valves_request, fleetlog.json(payload) j"), 't', 'every question was asked once');
is($s->sql("SELECT count(*) = count(DISTINCT fleetlog.json(payload) ->> 'request'), count(*) = (SELECT count(*) FROM valves_request) FROM valves_response"), 't|t', 'one answer to each is recorded');
is($s->sql("SELECT count(*), count(DISTINCT (device, payload)) FROM fleetlog.command WHERE name = 'set'"), "$all|$all", 'no command is there twice, none is lost');
my %of = map { my ($id, $what) = split /\|/; $id => $what } split /\n/, $s->sql("SELECT id, 'acme/cmd/' || device || '/req/set ' || payload FROM fleetlog.command WHERE name = 'set'");
my %ids;
push @{ $ids{ join ',', keys %{ $had{$_} } } }, $_ for keys %had;
is(join(' ', grep { @{ $ids{$_} } > 1 } sort keys %ids), '', 'no device got a command under two ids');
is(join(' ', grep { ($of{$_} // 'none') ne join ',', keys %{ $had{$_} } } sort keys %had), '', scalar(keys %had) . ' commands that devices have got are those of the rows');
cmp_ok(scalar(keys %had), '>', $DEVICES, 'of which there were some');
is($s->sql("SELECT string_agg(DISTINCT verdict, ' ') FROM fleetlog.replay('valves')"), 'same', 'replay finds every decision the same');
is($s->crashes, '', 'no crash');
done_testing();
