# C1, C2, H1: after the promotion of a standby its dispatcher goes on where the rows say: what was pending is sent, what was
# sent is delivered to the session that comes back, answers are taken once, and a job goes on.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('old');
$s->fleet(devices => 3);
my $standby = $s->new_standby('new');
$standby->node->start;

sub session { my ($server, $id) = @_; return $server->device($id, clean => 0, properties => [ [ 17, 3000 ] ]); }
sub id_of { return FleetlogTest::Mqtt::property($_[0], 9); }
sub state_is { my ($id, $state, $what) = @_; $standby->wait_for("SELECT state FROM fleetlog.command WHERE id = '$id'", $state, $what); is($standby->sql("SELECT state FROM fleetlog.command WHERE id = '$id'"), $state, $what); return; }

my %c = map { ($_ => session($s, $_)) } qw(d1 d2 d3);
$c{$_}->subscribe([ [ "acme/cmd/$_/req/+", 1 ] ]) for sort keys %c;
my $done = $s->sql(q{SELECT fleetlog.send_command('acme/d1', 'done', '1')});
my $p = $c{d1}->expect('PUBLISH');
$c{d1}->puback($p->{pid});
$c{d1}->publish_acked("acme/cmd/d1/res/$done", 'succeeded');
$s->wait_for("SELECT state FROM fleetlog.command WHERE id = '$done'", 'succeeded');
my $open = $s->sql(q{SELECT fleetlog.send_command('acme/d1', 'open', '1', ttl => '1 h', answer_timeout => '2 h')});
$p = $c{d1}->expect('PUBLISH');
$c{d1}->puback($p->{pid});
$s->wait_for("SELECT state FROM fleetlog.command WHERE id = '$open'", 'delivered');
$c{d2}->disconnect;
$s->wait_for("SELECT count(*) FROM fleetlog.stat_session WHERE device = 'd2' AND NOT connected", 1);
my $sent = $s->sql(q{SELECT fleetlog.send_command('acme/d2', 'sent', '1', ttl => '1 h')});
$s->wait_for("SELECT state FROM fleetlog.command WHERE id = '$sent'", 'sent');
$s->sql(q{SELECT fleetlog.create_job('all', 'job', '1', 'SELECT id FROM fleetlog.device ORDER BY id DESC', 1, ttl => '1 h')});
is($c{d3}->expect('PUBLISH')->{topic}, 'acme/cmd/d3/req/job', 'a job has begun');
my $pid = $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'commands'");
kill 'STOP', $pid;
my $pending = $s->sql(q{SELECT fleetlog.send_command('acme/d1', 'pending', '1', ttl => '1 h')});
my $old = $c{d1}->publish_acked("acme/cmd/d1/res/$open", '{"status": "failed", "detail": "before"}');
is($old, 0, 'an answer is in the log, and nobody has taken it yet');
$s->catch_up($standby);
is($standby->sql("SELECT state FROM fleetlog.command WHERE id = '$pending'"), 'pending', 'the standby shows states');
$s->kill9;
kill 'KILL', $pid;
$_->close for values %c;
$standby->node->promote;
$standby->wait_for_mqtt;

state_is($open, 'failed', 'the answer is taken by the new dispatcher');
is($standby->sql("SELECT late, detail FROM fleetlog.command WHERE id = '$open'"), 'f|before', 'in time');
state_is($pending, 'sent', 'what was pending is sent');
my $d1 = session($standby, 'd1');
my @got;
while (@got < 1)
{
    $p = $d1->expect('PUBLISH');
    $d1->puback($p->{pid});
    push @got, $p if id_of($p) eq $pending;
}
is($got[0]{topic}, 'acme/cmd/d1/req/pending', 'to the session that came with the standby');
state_is($pending, 'delivered', 'and is delivered');
my $d2 = session($standby, 'd2');
$p = $d2->expect('PUBLISH');
is(id_of($p), $sent, 'so is what was sent while its device was away');
$d2->puback($p->{pid});
$d2->publish_acked("acme/cmd/d2/res/$sent", 'succeeded');
state_is($sent, 'succeeded', 'and answered');
my $d3 = session($standby, 'd3');
my $job = $standby->sql("SELECT id FROM fleetlog.command WHERE job = 'all' AND device = 'd3'");
$d3->publish_acked("acme/cmd/d3/res/$job", 'succeeded');
$p = $d2->expect('PUBLISH');
is($p->{topic}, 'acme/cmd/d2/req/job', 'the job goes on with the next device');
is($standby->sql("SELECT count(*), count(DISTINCT id) FROM fleetlog.command"), $standby->sql("SELECT count(*), count(DISTINCT headers ->> 'fl-id') FROM fleetlog.command_log WHERE key ~ '/req/'"), 'each command is in the log once');
is($standby->sql("SELECT count(*) FROM fleetlog.command_event WHERE command = '$done' AND event = 'succeeded'"), 1, 'what was taken before is not taken again');
is($standby->sql("SELECT count(*) FROM fleetlog.stat_worker WHERE kind = 'commands' AND pid IS NOT NULL"), 1, 'by one dispatcher');
is($s->crashes . $standby->crashes, '', 'no crash');
$standby->node->stop;
done_testing();
