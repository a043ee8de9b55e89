# C1, C2, C3: a command is sent when its transaction has committed and never else; it reaches its device only, with the
# properties of C1 (MQTT 5) or in the envelope (MQTT 3); PUBACK, acknowledgement and result make its states; no answer
# makes it unknown, a late one is told as such; what has expired is never delivered; foreign answers are counted.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use JSON::PP;
use Time::HiRes qw(time);
use FleetlogTest;

my $s = FleetlogTest->new('commands');
$s->fleet(devices => 6);
$s->sql("SELECT fleetlog.create_tenant('beta', 'beta/'), fleetlog.create_device('d1', 'beta', password => 'pw-d1')");
my $json = JSON::PP->new->canonical;

sub command { my ($id, $what) = @_; return $s->sql("SELECT $what FROM fleetlog.command WHERE id = '$id'"); }
sub state_is { my ($id, $state, $what) = @_; $s->wait_for("SELECT state FROM fleetlog.command WHERE id = '$id'", $state, $what); is(command($id, 'state'), $state, $what); return; }
sub events { my ($id) = @_; return $s->sql("SELECT string_agg(event || CASE WHEN late THEN ' late' ELSE '' END, ', ' ORDER BY number) FROM fleetlog.command_event WHERE command = '$id'"); }
sub users { my ($p) = @_; return { map { $_->[1] => $_->[2] } grep { $_->[0] == 38 } @{ $p->{properties} } }; }

# ---- MQTT 5, the whole way; the device subscribed before the stream of commands was there ----

my $d1 = $s->device('d1');
my $d2 = $s->device('d2');
is(join(',', $d1->subscribe([ [ 'acme/cmd/d1/req/+', 1 ] ])), '1', 'a device subscribes to its commands');
is(join(',', $d1->subscribe([ [ 'acme/cmd/d2/req/+', 1 ] ])), '135', "and to no other's");
is(join(',', $d2->subscribe([ [ 'acme/cmd/d2/#', 1 ] ])), '1', 'another one');
is($s->sql("BEGIN; SELECT fleetlog.send_command('acme/d1', 'never', '1') IS NOT NULL; ROLLBACK; SELECT count(*) FROM fleetlog.command"), "t\n0", 'rolled back: no trace');
my $id = $s->sql(q{SELECT fleetlog.send_command('acme/d1', 'open', '{"valve": 7}', ttl => '1 min')});
my $p = $d1->expect('PUBLISH');
is("$p->{topic} $p->{payload} $p->{qos}", 'acme/cmd/d1/req/open {"valve": 7} 1', 'the command, at QoS 1, is the first that came');
is(FleetlogTest::Mqtt::property($p, 8), "acme/cmd/d1/res/$id", 'response topic');
is(FleetlogTest::Mqtt::property($p, 9), $id, 'correlation data');
my $expiry = FleetlogTest::Mqtt::property($p, 2);
ok($expiry > 0 && $expiry <= 60, "message expiry ($expiry)");
my $users = users($p);
is($users->{'fl-id'}, $id, 'fl-id');
like("$users->{'fl-issued-at'} $users->{'fl-expires-at'}", qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, 'fl-issued-at and fl-expires-at');
state_is($id, 'sent', 'sent until it is acknowledged');
$d1->puback($p->{pid});
state_is($id, 'delivered', 'PUBACK: delivered');
is($d1->publish_acked("acme/cmd/d1/ack/$id", ''), 0, 'the device acknowledges');
state_is($id, 'acknowledged', 'acknowledged');
is($d1->publish_acked("acme/cmd/d1/res/$id", '{"status": "succeeded", "detail": "open", "angle": 90}'), 0, 'and says the result');
state_is($id, 'succeeded', 'succeeded');
is(events($id), 'pending, sent, delivered, acknowledged, succeeded', 'every change was kept');
is(command($id, q{issued_by || ' ' || detail || ' ' || (answer ->> 'angle') || ' ' || (issued_at <= sent_at AND sent_at <= delivered_at AND delivered_at <= acknowledged_at AND acknowledged_at <= answered_at) || ' ' || late}),
    $s->sql('SELECT current_user') . ' open 90 true false', 'one row tells who, when and what');
is($s->sql("SELECT fleetlog.text(l.payload) FROM fleetlog.command_log l JOIN fleetlog.command c USING (shard, log_offset) WHERE c.id = '$id'"), '{"valve": 7}', 'its position is that of the record');
is($s->sql("SELECT count(*) FROM fleetlog.command_event e JOIN fleetlog.command_log l USING (shard, log_offset) WHERE e.command = '$id'"), 4, 'and each event has the position of its own');

# Said twice: the first counts.
is($d1->publish_acked("acme/cmd/d1/res/$id", '{"status": "failed"}'), 0, 'a second result');
$s->wait_for("SELECT count(*) FROM fleetlog.command_event WHERE command = '$id' AND event = 'repeated'", 1);
is(command($id, 'state'), 'succeeded', 'changes nothing, and is kept');

# The other forms of a result.
sub result_of
{
    my ($payload, @properties) = @_;
    my $one = $s->sql(q{SELECT fleetlog.send_command('acme/d1', 'x', '{}')});
    my $got = $d1->expect('PUBLISH');
    $d1->puback($got->{pid});
    $d1->publish_acked("acme/cmd/d1/res/$one", $payload, properties => \@properties);
    $s->wait_for("SELECT finished_at IS NOT NULL FROM fleetlog.command WHERE id = '$one'");
    return command($one, q{state || ' ' || coalesce(detail, '-') || ' ' || coalesce(answer::text, '-')});
}
is(result_of('', [ 38, 'fl-status', 'failed' ], [ 38, 'fl-detail', 'stuck' ]), 'failed stuck -', 'as user properties, with no payload');
is(result_of('succeeded'), 'succeeded - "succeeded"', 'as a word');
is(result_of('{"status":"expired","detail":"too old"}'), 'expired too old {"detail": "too old", "status": "expired"}', 'the device finds it too old');

# ---- MQTT 3: the envelope ----

my $d3 = $s->device('d3', version => 4);
$d3->subscribe([ [ 'acme/cmd/d3/req/#', 1 ] ]);
my $old = $s->sql(q{SELECT fleetlog.send_command('acme/d3', 'set-point', '{"t": 21.5, "s": "a\"b"}')});
$p = $d3->expect('PUBLISH');
my $e = $json->decode($p->{payload});
is(join(' ', sort keys %$e), 'expires_at id issued_at name payload', 'the envelope has its five fields');
is("$e->{id} $e->{name} $e->{payload}{t} $e->{payload}{s}", "$old set-point 21.5 a\"b", 'with what belongs into them');
like("$e->{issued_at}$e->{expires_at}", qr/^(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z){2}$/, 'and the times');
$d3->puback($p->{pid});
state_is($old, 'delivered', 'a client of MQTT 3 acknowledges it as well');
$d3->publish_acked("acme/cmd/d3/res/$old", '{"status":"failed","detail":"no sensor"}');
state_is($old, 'failed', 'and answers');

SKIP:
{
    skip 'mosquitto-clients is not installed', 2 unless grep { -x "$_/mosquitto_sub" } split /:/, $ENV{PATH};
    my ($out, $err) = ('', '');
    my @who = ('-h', '127.0.0.1', '-p', $s->port, '-u', 'acme/d6', '-P', 'pw-d6');
    my $sub = IPC::Run::start([ 'mosquitto_sub', @who, '-i', 'd6', '-q', '1', '-t', 'acme/cmd/d6/req/#', '-C', 1 ], '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    $s->wait_for("SELECT count(*) FROM fleetlog.stat_connection WHERE client_id = 'd6' AND subscriptions > 0", 1);
    my $one = $s->sql(q{SELECT fleetlog.send_command('acme/d6', 'reboot', '{"after": 5}')});
    $sub->finish;
    is(eval { my $m = $json->decode($out); "$m->{id} $m->{name} $m->{payload}{after}" } // $out, "$one reboot 5", 'mosquitto_sub gets the envelope');
    IPC::Run::run([ 'mosquitto_pub', @who, '-q', '1', '-t', "acme/cmd/d6/res/$one", '-m', 'succeeded' ]);
    state_is($one, 'succeeded', 'mosquitto_pub answers');
}

# ---- no answer, late answers, QoS 0 ----

my $q0 = $s->device('d4');
$q0->subscribe([ [ 'acme/cmd/d4/req/+', 0 ] ]);
my $zero = $s->sql(q{SELECT fleetlog.send_command('acme/d4', 'x', '{}', ttl => '1 min', answer_timeout => '3 s')});
$p = $q0->expect('PUBLISH');
is($p->{qos}, 0, 'who subscribed at QoS 0 gets it so');
state_is($zero, 'unknown', 'and no answer in time: unknown');
is(events($zero), 'pending, sent, unknown', 'it stayed at sent before');
is(command($zero, 'delivered_at IS NULL AND finished_at >= answer_by'), 't', 'nobody knows whether it was delivered');
$q0->publish_acked("acme/cmd/d4/ack/$zero", '');
$q0->publish_acked("acme/cmd/d4/res/$zero", '{"status":"succeeded"}');
state_is($zero, 'succeeded', 'a late result says what became of it');
is(command($zero, 'late'), 't', 'the row says that it came late');
is(events($zero), 'pending, sent, unknown, acknowledged late, succeeded late', 'and so does the history');
my $mute = $s->sql(q{SELECT fleetlog.send_command('acme/d1', 'x', '{}', answer_timeout => '2 s')});
$p = $d1->expect('PUBLISH');
$d1->puback($p->{pid});
state_is($mute, 'unknown', 'delivered, and never answered: unknown');
is(events($mute), 'pending, sent, delivered, unknown', 'with its history');
is($s->sql("SELECT sum(commands) FROM fleetlog.stat_command WHERE state = 'unknown'"), 1, 'the view counts them apart');

# ---- who may answer ----

my $mine = $s->sql(q{SELECT fleetlog.send_command('acme/d2', 'x', '{}')});
$p = $d2->expect('PUBLISH');
$d2->puback($p->{pid});
state_is($mine, 'delivered', 'delivered to its device');
is($d1->publish_acked("acme/cmd/d2/res/$mine", 'succeeded'), 0x87, "another device may not publish on the device's topics");
is($d1->publish_acked("acme/cmd/d1/res/$mine", 'succeeded'), 0, 'on its own it can say what it likes');
my $b1 = $s->device('d1', client_id => 'b1', user => 'beta/d1');
is($b1->publish_acked("beta/cmd/d1/res/$mine", 'succeeded'), 0, 'so can a device of another tenant');
$d1->publish_acked('acme/cmd/d1/res/' . 'no-id', 'succeeded');
$d1->publish_acked('acme/cmd/d1/res/00000000-0000-4000-8000-000000000000', 'succeeded');
$d2->publish_acked("acme/cmd/d2/res/$mine", '{"status": "done"}');
$s->wait_for('SELECT sum(answers) FROM fleetlog.command_ignored', 5);
is($s->sql("SELECT string_agg(reason || ' ' || answers, ', ' ORDER BY reason) FROM fleetlog.command_ignored"),
    'command of another device 2, result without a status 1, unknown id 2', 'each is counted by its reason');
is(command($mine, 'state'), 'delivered', 'and changed nothing');
$d2->quiet(0.1);
for my $end (qw(ack res)) { is($d2->publish_acked("acme/cmd/d2/$end/$mine", 'succeeded'), 0, "its own $end"); }
state_is($mine, 'succeeded', 'counts, although it hears itself');

# A device of another tenant with the same id gets none of it.
$b1->subscribe([ [ 'beta/cmd/d1/#', 1 ] ]);
my $b = $s->sql(q{SELECT fleetlog.send_command('beta/d1', 'only-beta', '1')});
is($b1->expect('PUBLISH')->{topic}, 'beta/cmd/d1/req/only-beta', 'each tenant has its own');
$s->sql(q{SELECT fleetlog.send_command('acme/d1', 'only-acme', '1')});
is($d1->expect('PUBLISH')->{topic}, 'acme/cmd/d1/req/only-acme', 'of the same name');
ok($b1->quiet(0.2), 'and nothing else');

# ---- who does not get commands: roles, groups, wide filters of other devices ----

$s->sql(q{CREATE ROLE dash LOGIN PASSWORD 'dash'; GRANT SELECT ON telemetry, fleetlog.command_log TO dash; SELECT fleetlog.allow('acme', 'subscribe', 'acme/#')});
my $dash = FleetlogTest::Mqtt->open($s->port, version => 5);
is($dash->login(client_id => 'dash', user => 'dash', password => 'dash')->{reason}, 0, 'a role logs in');
is(join(',', $dash->subscribe([ [ 'acme/cmd/d1/#', 1 ] ])), '135', 'and may not subscribe to commands');
is(join(',', $dash->subscribe([ [ '#', 1 ], [ '$share/g/acme/#', 1 ] ])), '1,1', 'but to all that it may read');
is(join(',', $dash->subscribe([ [ 'acme/#', 1 ] ], properties => [ [ 38, 'fl-from', '0:0' ] ])), '1', 'from a position too: commands make it no other stream');
my $wide = $s->device('d6', client_id => 'wide');
is(join(',', $wide->subscribe([ [ 'acme/#', 1 ] ])), '1', 'a device with a wide filter');
my $seen = $s->sql(q{SELECT fleetlog.send_command('acme/d1', 'private', '1')});
$p = $d1->expect('PUBLISH');
$d1->puback($p->{pid});
my $own = $s->sql(q{SELECT fleetlog.send_command('acme/d6', 'its-own', '1')});
$p = $wide->expect('PUBLISH');
is($p->{topic}, 'acme/cmd/d6/req/its-own', 'gets its own commands and no others');
$wide->puback($p->{pid});
state_is($own, 'delivered', 'and acknowledges them');
$d1->publish_acked('acme/d1/t', 'reading');
is($dash->expect('PUBLISH')->{topic}, 'acme/d1/t', 'a role gets readings and no commands');
$_->disconnect for $dash, $wide;

# ---- expiry ----

# Nobody sends: it expires before dispatch.
my $pid = $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'commands'");
kill 'STOP', $pid;
my $early = $s->sql(q{SELECT fleetlog.send_command('acme/d1', 'early', '{}', ttl => '300 ms')});
$s->wait_for("SELECT clock_timestamp() > expires_at FROM fleetlog.command WHERE id = '$early'");
kill 'CONT', $pid;
state_is($early, 'expired', 'a command that was not sent in time has expired');
is(events($early), 'pending, expired', 'and was never sent');

# A session that is away: what has expired meanwhile is left out, what has not is delivered, and counts down.
my $away = $s->device('d5', clean => 0, properties => [ [ 17, 3000 ] ]);
$away->subscribe([ [ 'acme/cmd/d5/req/+', 1 ] ]);
$away->disconnect;
$s->wait_for("SELECT count(*) FROM fleetlog.stat_session WHERE device = 'd5' AND NOT connected", 1);
my $short = $s->sql(q{SELECT fleetlog.send_command('acme/d5', 'short', '{}', ttl => '1 s')});
my $long = $s->sql(q{SELECT fleetlog.send_command('acme/d5', 'long', '{}', ttl => '1 h')});
state_is($short, 'sent', 'sent, to the log');
$s->wait_for("SELECT clock_timestamp() > expires_at + interval '1 s' FROM fleetlog.command WHERE id = '$short'");
$away = $s->device('d5', clean => 0, properties => [ [ 17, 3000 ] ]);
$p = $away->expect('PUBLISH');
is($p->{topic}, 'acme/cmd/d5/req/long', 'the one that has not expired is delivered to who comes back');
$expiry = FleetlogTest::Mqtt::property($p, 2);
ok($expiry < 3600 && $expiry > 3000, "its expiry has counted down ($expiry)");
state_is($short, 'expired', 'the other one was left out, which is known');
is(events($short), 'pending, sent, expired', 'as its history says');

# Delivered and not acknowledged, then expired: it is not sent again.
my $half = $s->sql(q{SELECT fleetlog.send_command('acme/d5', 'half', '{}', ttl => '1 s', answer_timeout => '4 s')});
is($away->expect('PUBLISH')->{topic}, 'acme/cmd/d5/req/half', 'a command is delivered');
$away->close;
$s->wait_for("SELECT clock_timestamp() > expires_at + interval '1 s' FROM fleetlog.command WHERE id = '$half'");
$away = $s->device('d5', clean => 0, properties => [ [ 17, 3000 ] ]);
$p = $away->expect('PUBLISH');
is($p->{topic}, 'acme/cmd/d5/req/long', 'what has not expired comes again');
ok($away->quiet(0.5), 'what has does not');
state_is($half, 'unknown', 'nobody knows what became of it');

# A device that does not acknowledge: what waits in its queue expires there.
my $slow = $s->device('d6', client_id => 'slow', properties => [ [ 33, 1 ] ]);
$slow->subscribe([ [ 'acme/cmd/d6/req/+', 1 ] ]);
$s->sql(q{SELECT fleetlog.send_command('acme/d6', 'first', '{}', ttl => '1 h')});
$p = $slow->expect('PUBLISH');
my $queued = $s->sql(q{SELECT fleetlog.send_command('acme/d6', 'second', '{}', ttl => '1 s')});
$s->sql(q{SELECT fleetlog.send_command('acme/d6', 'third', '{}', ttl => '1 h')});
state_is($queued, 'sent', 'the second waits');
$s->wait_for("SELECT clock_timestamp() > expires_at FROM fleetlog.command WHERE id = '$queued'");
$slow->puback($p->{pid});
is($slow->expect('PUBLISH')->{topic}, 'acme/cmd/d6/req/third', 'what expired in the queue is left out');
state_is($queued, 'expired', 'and that is known');

# ---- cancel; devices that go ----

$pid = $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'commands'");
kill 'STOP', $pid;
my $c1 = $s->sql(q{SELECT fleetlog.send_command('acme/d1', 'cancelled', '{}')});
my $c2 = $s->sql(q{SELECT fleetlog.send_command('acme/d2', 'orphan', '{}')});
is($s->sql("SELECT fleetlog.cancel_command('$c1')"), 't', 'what was not sent can be cancelled');
is($s->sql("SELECT fleetlog.cancel_command('$c1')"), 'f', 'once');
$s->sql("SELECT fleetlog.drop_device('acme/d2')");
kill 'CONT', $pid;
state_is($c2, 'cancelled', 'of a device that is gone, too');
is($s->sql("SELECT fleetlog.cancel_command('$long')"), 'f', 'what was sent cannot be taken back');
$s->sql(q{SELECT fleetlog.send_command('acme/d1', 'after', '{}')});
is($d1->expect('PUBLISH')->{topic}, 'acme/cmd/d1/req/after', 'a cancelled command is never sent');

# ---- 1,000 at once, in order; the worker that is killed is followed by another ----

$s->sql(q{SELECT fleetlog.send_command('acme/d3', 'n', to_jsonb(n)) FROM generate_series(1, 1000) n});
my @got = $d3->messages(1000);
is(join(' ', map { $json->decode($_->{payload})->{payload} } @got), join(' ', 1 .. 1000), '1,000 commands of one transaction come in their order');
$s->wait_for("SELECT count(*) FROM fleetlog.command WHERE name = 'n' AND state = 'delivered'", 1000);
$s->sql("SELECT pg_terminate_backend(pid) FROM fleetlog.stat_worker WHERE kind = 'commands'");
$s->sql(q{SELECT fleetlog.send_command('acme/d1', 'next', '{}')});
is($d1->expect('PUBLISH')->{topic}, 'acme/cmd/d1/req/next', 'the next dispatcher goes on');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
