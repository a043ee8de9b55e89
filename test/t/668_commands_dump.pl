# C1 - C3, L3: pg_dump and restore of a database with commands in every state and jobs under way: the history is the same, what
# was pending is sent once, what was sent is not sent again, answers to it count, jobs go on with the devices that they have not
# commanded; also of a dump that was taken while commands were sent, and of a restore into a server at work.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use FleetlogTest;

my $s = FleetlogTest->new('source');
$s->fleet(devices => 8);
$s->sql("SELECT fleetlog.create_device('gone', 'acme', password => 'x'); CREATE ROLE ops; SELECT fleetlog.allow_commands('acme', 'ops')");

sub session { my ($server, $id) = @_; return $server->device($id, clean => 0, properties => [ [ 17, 3000 ] ]); }
sub id_of { return FleetlogTest::Mqtt::property($_[0], 9); }
sub state_is { my ($server, $id, $state) = @_; $server->wait_for("SELECT state FROM fleetlog.command WHERE id = '$id'", $state, "a command to be $state"); return; }
sub command { my ($device, $name, $more) = @_; return $s->sql("SELECT fleetlog.send_command('acme/$device', '$name', '{\"n\": 1}', answer_timeout => '2 h'" . ($more // ", ttl => '1 h'") . ')'); }
sub take { my ($client, $id) = @_; my $p = $client->expect('PUBLISH'); is(id_of($p), $id, "$p->{topic} comes"); $client->puback($p->{pid}); return; }

my %c = map { ($_ => session($s, $_)) } map { "d$_" } 1 .. 6;
$c{$_}->subscribe([ [ "acme/cmd/$_/req/+", 1 ] ]) for sort keys %c;
my %id;
for my $case ([ 'succeeded', '{"status": "succeeded", "detail": "done"}' ], [ 'failed', 'failed' ], [ 'too-old', '{"status": "expired"}' ])
{
    my ($name, $says) = @$case;
    take($c{d1}, $id{$name} = command('d1', $name));
    $c{d1}->publish_acked("acme/cmd/d1/$_->[0]/$id{$name}", $_->[1]) for [ 'ack', '' ], [ 'res', $says ];
    $c{d1}->publish_acked("acme/cmd/d1/res/$id{$name}", 'failed') if $name eq 'succeeded';
}
take($c{d1}, $id{unknown} = $s->sql(q{SELECT fleetlog.send_command('acme/d1', 'unknown', '1', answer_timeout => '1 s')}));
take($c{d1}, $id{acknowledged} = command('d1', 'acknowledged'));
$c{d1}->publish_acked("acme/cmd/d1/ack/$id{acknowledged}", '');
take($c{d1}, $id{delivered} = command('d1', 'delivered'));
$c{d1}->publish_acked('acme/cmd/d1/res/nothing', 'succeeded');
$c{d2}->disconnect;
$s->wait_for("SELECT count(*) FROM fleetlog.stat_session WHERE device = 'd2' AND NOT connected", 1);
$id{sent} = command('d2', 'sent');
state_is($s, $id{$_}, $_) for qw(succeeded failed unknown acknowledged delivered sent);
state_is($s, $id{'too-old'}, 'expired');

# Jobs: one under way, one paused, one finished.
$s->sql(q{SELECT fleetlog.create_job('over', 'over', '1', 'SELECT ''d3'''); SELECT fleetlog.create_job('going', 'going', '1', 'SELECT * FROM unnest(ARRAY[''d3'', ''d4'', ''d5'']) d', 1, ttl => '1 h', answer_timeout => '2 h')});
for my $name ('over', 'going')
{
    my $p = $c{d3}->expect('PUBLISH');
    $c{d3}->puback($p->{pid});
    $c{d3}->publish_acked('acme/cmd/d3/res/' . id_of($p), 'succeeded');
    $s->wait_for("SELECT succeeded FROM fleetlog.job WHERE name = '$name'", 1);
}
$s->wait_for(q{SELECT count(*) FROM fleetlog.command WHERE job = 'going' AND device = 'd4' AND state = 'sent'}, 1);
$s->sql(q{SELECT fleetlog.create_job('halted', 'halted', '1', 'SELECT ''d6'' UNION ALL SELECT ''d7''', 1, ttl => '1 h', answer_timeout => '2 h')});
$s->wait_for(q{SELECT count(*) FROM fleetlog.command WHERE job = 'halted' AND state = 'sent'}, 1);
$s->sql(q{SELECT fleetlog.pause_job('halted')});

# With no dispatcher: what is pending stays so, an answer stays in the log.
my $pid = $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'commands'");
kill 'STOP', $pid;
$id{'not-sent'} = $s->sql(q{SELECT fleetlog.send_command('acme/d1', 'not-sent', '1', ttl => '1 ms')});
$id{pending} = command('d1', 'pending');
$id{cancelled} = command('d1', 'cancelled');
$id{orphan} = command('gone', 'orphan');
$s->sql("SELECT fleetlog.cancel_command('$id{cancelled}'), fleetlog.drop_device('acme/gone')");
is($s->sql("SELECT state || ': ' || detail FROM fleetlog.command WHERE id = '$id{orphan}'"), 'cancelled: the device was revoked or removed', 'what waits for a device that is removed is cancelled with it');
$c{d1}->publish_acked("acme/cmd/d1/res/$id{delivered}", '{"status": "succeeded", "detail": "in the log"}');
is($s->sql('SELECT count(DISTINCT state) FROM fleetlog.command'), 9, 'there are commands in all states');

my $all = join ' || ', map { "coalesce((SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM fleetlog.$_ t), '-')" }
  qw(command command_event command_grant command_ignored job_config job_target);
my $before = $s->sql("SELECT $all");
my $jobs = $s->sql('SELECT name, state, wave, open, succeeded, waiting FROM fleetlog.job ORDER BY 1');
my $history = "SELECT c.issued_by, c.sent_at, c.delivered_at, c.acknowledged_at, c.answered_at, c.answer, c.detail, fleetlog.text(l.payload),"
  . " (SELECT string_agg(e.event || coalesce(': ' || e.detail, ''), ', ' ORDER BY e.number) FROM fleetlog.command_event e WHERE e.command = c.id)"
  . " FROM fleetlog.command c JOIN fleetlog.command_log l USING (shard, log_offset) WHERE c.id = '$id{succeeded}'";
my $told = $s->sql($history);

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
kill 'CONT', $pid;
$_->close for values %c;

# What both copies have to come to.
sub goes_on
{
    my ($t, $what) = @_;

    $t->wait_for_mqtt;
    state_is($t, $id{pending}, 'sent');
    is($t->sql("SELECT string_agg(event, ', ' ORDER BY number) FROM fleetlog.command_event WHERE command = '$id{pending}'"), 'pending, sent', "$what: what was pending is sent");
    state_is($t, $id{'not-sent'}, 'expired');
    state_is($t, $id{delivered}, 'succeeded');
    is($t->sql("SELECT detail, late FROM fleetlog.command WHERE id = '$id{delivered}'"), 'in the log|f', "$what: an answer that nobody had taken counts");
    # Devices come without their sessions, which no dump carries; what they have got of the other server they answer here.
    my %d = map { ($_ => session($t, $_)) } qw(d1 d2 d4 d5);
    is(join(',', $d{$_}->subscribe([ [ "acme/cmd/$_/req/+", 1 ] ])), 1, "$what: $_ comes") for sort keys %d;
    for my $case ([ 'd2', $id{sent} ], [ 'd1', $id{pending} ], [ 'd1', $id{acknowledged} ])
    {
        my ($device, $command) = @$case;
        is($d{$device}->publish_acked("acme/cmd/$device/res/$command", 'succeeded'), 0, "$what: $device answers");
        state_is($t, $command, 'succeeded');
    }
    my $of_job = $t->sql("SELECT id FROM fleetlog.command WHERE job = 'going' AND device = 'd4'");
    $d{d4}->publish_acked("acme/cmd/d4/res/$of_job", 'succeeded');
    is($d{d5}->expect('PUBLISH')->{topic}, 'acme/cmd/d5/req/going', "$what: the job goes on with the next device");
    ok($d{$_}->quiet(0.2), "$what: $_ gets nothing again") for qw(d1 d2 d4);
    is($t->sql("SELECT state, waiting FROM fleetlog.job WHERE name = 'halted'"), 'paused|1', "$what: what was paused stays so");
    is($t->sql("SELECT string_agg(device, ' ' ORDER BY number) FROM fleetlog.command WHERE job = 'going'"), 'd3 d4 d5', "$what: no device twice");
    is($t->sql($history), $told, "$what: a command of the past tells all of itself");
    is($t->sql("SELECT count(*) FROM (SELECT headers ->> 'fl-id' FROM fleetlog.command_log WHERE key ~ '/req/' GROUP BY 1 HAVING count(*) > 1) x"), 0, "$what: none is twice in the log");
    is($t->sql("SELECT (SELECT count(*) FROM fleetlog.command WHERE sent_at IS NOT NULL) - (SELECT count(*) FROM fleetlog.command_log WHERE key ~ '/req/')"), 0, "$what: the log has what was sent, and nothing else");
    is($t->sql("SELECT fleetlog.send_command('acme/d1', 'new', '1') IS NOT NULL; SELECT number = max(number) OVER () FROM fleetlog.command ORDER BY issued_at DESC LIMIT 1"), "t\nt", "$what: numbers go on");
    is($d{d1}->expect('PUBLISH')->{topic}, 'acme/cmd/d1/req/new', "$what: and so do commands");
    is($t->density_faults, '', "$what: offsets are dense");
    is($t->crashes, '', "$what: no crash");
    return;
}

# As docs/operate.md says: paused, in parallel.
{
    my $t = FleetlogTest->new('copy', no_wait => 1);
    my $err = '';
    $t->sql("SELECT fleetlog.pause(); CREATE ROLE ops");
    ok(IPC::Run::run([ 'pg_restore', '-j2', '--exit-on-error', '-d', $t->node->connstr('fleetlog'), $folder ], '2>', \$err), 'pg_restore') or diag($err);
    is($t->sql("SELECT $all"), $before, 'paused: everything is as it was');
    is($t->sql('SELECT name, state, wave, open, succeeded, waiting FROM fleetlog.job ORDER BY 1'), $jobs, 'paused: jobs are where they were');
    is($t->sql(q{SET ROLE ops; SELECT count(*) > 0 FROM fleetlog.command}), 't', 'paused: rights are there');
    $t->sql('SELECT fleetlog.resume()');
    goes_on($t, 'paused');
    $t->node->stop;
}

# By psql into a server whose dispatcher is at work: it waits for what it needs.
{
    my $t = FleetlogTest->new('busy', no_extension => 1);
    my $err = '';
    $t->sql('CREATE ROLE ops');
    ok(IPC::Run::run([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $t->node->connstr('fleetlog'), '-f', $plain ], '>', '/dev/null', '2>', \$err), 'psql') or diag($err);
    goes_on($t, 'at work');
    $t->node->stop;
}

# A dump while commands are sent: of each, row and record are both of before or both of after.
{
    my $n = 4000;
    my $sender = $s->start_sql("DO \$\$ BEGIN FOR i IN 1 .. $n LOOP PERFORM fleetlog.send_command('acme/d8', 'n', to_jsonb(i), ttl => '1 h', answer_timeout => '2 h'); IF i % 20 = 0 THEN COMMIT; END IF; END LOOP; END \$\$");
    $s->wait_for("SELECT count(*) > 100 FROM fleetlog.command WHERE name = 'n' AND state = 'sent'");
    my $file = dump_of('loaded', '-Fd', '-j2');
    my ($rc, undef, $errors) = $s->finish_sql($sender);
    is("$rc$errors", '0', 'commands are written while a dump is taken');
    my $t = FleetlogTest->new('loaded', no_wait => 1);
    my $err = '';
    $t->sql("SELECT fleetlog.pause(); CREATE ROLE ops");
    ok(IPC::Run::run([ 'pg_restore', '-j2', '--exit-on-error', '-d', $t->node->connstr('fleetlog'), $file ], '2>', \$err), 'pg_restore') or diag($err);
    is($t->sql("SELECT count(*) FROM fleetlog.command c FULL JOIN (SELECT shard, log_offset, headers ->> 'fl-id' AS id FROM fleetlog.command_log WHERE key ~ '/req/') l ON l.id = c.id::text
        WHERE (c.sent_at IS NOT NULL) <> (l.id IS NOT NULL) OR (c.shard, c.log_offset) IS DISTINCT FROM (l.shard, l.log_offset)"), 0, 'a command is in the dumped log if its row says so, at its position');
    note($t->sql("SELECT state || ' ' || count(*) FROM fleetlog.command WHERE name = 'n' GROUP BY state"));
    $t->sql('SELECT fleetlog.resume()');
    $t->wait_for("SELECT count(*) FROM fleetlog.command WHERE name = 'n' AND state = 'pending'", 0, 'what was pending to be sent');
    is($t->sql("SELECT count(*) - count(DISTINCT headers ->> 'fl-id') FROM fleetlog.command_log WHERE key ~ '/req/'"), 0, 'none twice');
    is($t->crashes, '', 'no crash');
    $t->node->stop;
}
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
