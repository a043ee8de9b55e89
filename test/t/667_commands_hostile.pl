# C2, T: devices that lie about commands: answers for another device, forged ids, huge answers, answers to what was cancelled
# or never sent, floods of answers, two subscriptions at once; thousands of commands that wait for a device that is away; a
# transaction that stays open elsewhere.  Nobody else is harmed, and no row says what is not so.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('hostile');
$s->fleet(devices => 4);
my $liar = $s->device('d1');
my $good = $s->device('d2');
is(join(',', $liar->subscribe([ [ 'acme/cmd/d1/req/+', 1 ] ])) . ',' . join(',', $good->subscribe([ [ 'acme/cmd/d2/req/+', 1 ] ])), '1,1', 'two devices listen');

sub send_to { my ($device, $name, $more) = @_; return $s->sql("SELECT fleetlog.send_command('acme/$device', '$name', '{}'" . ($more // '') . ')'); }
sub state_of { my ($id) = @_; return $s->sql("SELECT state FROM fleetlog.command WHERE id = '$id'"); }
sub take
{
    my ($client, $id) = @_;
    my $p = $client->expect('PUBLISH');
    is(FleetlogTest::Mqtt::property($p, 9), $id, "$p->{topic} comes");
    $client->puback($p->{pid});
    return;
}

# Commands of others: whatever is tried, they stay what they are.
my $other = send_to('d2', 'guarded');
take($good, $other);
$s->wait_for("SELECT state FROM fleetlog.command WHERE id = '$other'", 'delivered');
is($liar->publish_acked("acme/cmd/d2/res/$other", 'succeeded'), 0x87, "another device's answer topics are closed");
is($liar->publish_acked("acme/cmd/d1/req/guarded", '{}'), 0x87, 'and nobody commands by MQTT, not even itself');
my @forged = ($other, uc $other, "{$other}", $other =~ tr/-//dr, "$other ", '0' x 36, '-' x 36, '1' x 5000, "'; DROP TABLE fleetlog.command; --", '%00', "\xC3\xA9", 'NULL', '*' x 36);
is($liar->publish_acked("acme/cmd/d1/res/$_", 'succeeded') & 0x7f, 0, 'forged: ' . substr($_, 0, 40)) for @forged;
is($liar->publish_acked("acme/cmd/d1/$_/$other", 'succeeded', properties => [ [ 38, 'fl-status', 'succeeded' ], [ 38, 'fl-device', 'd2' ], [ 9, $other ] ]), 0, "as $_, with all properties that could say so") for 'ack', 'res';

# Payloads: huge, nested, no text, no status; they are answers to its own command, and the first with a status counts.
my $own = send_to('d1', 'own');
take($liar, $own);
for my $payload ('', "\0" x 100, "\xFF\xFE", '{', '[' x 20000, '{"status":' . '"x' x 10, '{"status":"SUCCEEDED"}', '{"status":["succeeded"]}', '{"status":null}', '{"a":"\u0000"}', '1e400000', 'null', '"cancelled"')
{
    is($liar->publish_acked("acme/cmd/d1/res/$own", $payload), 0, 'a result without a status: ' . length($payload) . ' bytes');
}
is($liar->publish_acked("acme/cmd/d1/res/$own", '{"status":"failed","detail":"' . 'd' x 5000 . '","body":"' . 'b' x 300_000 . '"}'), 0, 'a huge result');
$s->wait_for("SELECT state FROM fleetlog.command WHERE id = '$own'", 'failed');
is($s->sql("SELECT length(detail) || ' ' || (answer IS NULL) FROM fleetlog.command WHERE id = '$own'"), '1000 true', 'it is kept up to the limits; the rest is in the log');
is($s->sql("SELECT length(l.payload) > 300000 FROM fleetlog.command_event e JOIN fleetlog.command_log l USING (shard, log_offset) WHERE e.command = '$own' AND e.event = 'failed'"), 't', "at the event's position");
is(state_of($other), 'delivered', 'the guarded command is what it was');

# Cancelled before it was sent, then answered.
my $pid = $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'commands'");
kill 'STOP', $pid;
my $cancelled = send_to('d1', 'cancelled');
my $waiting = send_to('d1', 'waiting');
is($s->sql("SELECT fleetlog.cancel_command('$cancelled')"), 't', 'cancelled');
for my $id ($cancelled, $waiting) { is($liar->publish_acked("acme/cmd/d1/$_/$id", 'succeeded'), 0, "it says $_ of what it was not sent") for 'ack', 'res'; }
kill 'CONT', $pid;
take($liar, $waiting);
$s->wait_for("SELECT count(*) FROM fleetlog.command_event WHERE command IN ('$cancelled', '$waiting') AND event = 'delivered'", 1);
isnt(state_of($cancelled), 'sent', 'what was cancelled was not sent');
is($s->sql("SELECT count(*) FROM fleetlog.command_log WHERE key ~ '/req/cancelled'"), 0, 'and is not in the log');
note($s->sql("SELECT name, state, late, (SELECT string_agg(event, ', ' ORDER BY number) FROM fleetlog.command_event WHERE command = id) FROM fleetlog.command WHERE id IN ('$cancelled', '$waiting')"));

# Subscribed twice, by overlapping filters: one delivery.
is(join(',', $liar->subscribe([ [ 'acme/cmd/d1/#', 0 ], [ 'acme/cmd/+/req/twice', 1 ] ])), '0,135', 'a second filter; one over others is refused');
my $twice = send_to('d1', 'twice');
take($liar, $twice);
my $next = send_to('d1', 'next');
take($liar, $next);
$liar->unsubscribe('acme/cmd/d1/#');

# A flood of answers to one command does not keep another device from its own.
$liar->publish("acme/cmd/d1/res/$next", 'succeeded', qos => 0) for 1 .. 2000;
my $urgent = send_to('d2', 'urgent');
take($good, $urgent);
is($good->publish_acked("acme/cmd/d2/res/$urgent", 'succeeded'), 0, 'the other device answers');
$s->wait_for("SELECT state FROM fleetlog.command WHERE id = '$urgent'", 'succeeded', 'the answer behind a flood to count');

$s->wait_for("SELECT coalesce(sum(answers), 0) > 1000 FROM fleetlog.command_ignored WHERE reason = 'repeated more than 20 times'", 't', 'the flood to be counted');
is($s->sql("SELECT count(*) || ' ' || count(*) FILTER (WHERE event = 'repeated') FROM fleetlog.command_event WHERE command = '$next'"), '24 20', 'of it the first are kept with the command');

# Thousands for one that is away: the first come back in order, as its window allows, the others are served meanwhile.
my $away = $s->device('d3', clean => 0, properties => [ [ 17, 3000 ] ]);
$away->subscribe([ [ 'acme/cmd/d3/req/+', 1 ] ]);
$away->disconnect;
$s->wait_for("SELECT count(*) FROM fleetlog.stat_session WHERE device = 'd3' AND NOT connected", 1);
my $n = 3000;
is($s->sql("SELECT count(fleetlog.send_command('acme/d3', 'n' || n, '{}', ttl => '1 h')) FROM generate_series(1, $n) n"), $n, "$n commands for a device that is away");
$s->wait_for("SELECT count(*) FROM fleetlog.command WHERE device = 'd3' AND state = 'sent'", $n, 'all to be sent');

# A transaction that stays open elsewhere: it holds a command of its own back, and nobody's answers.
my $session = $s->session;
$session->query("BEGIN; SELECT fleetlog.send_command('acme/d2', 'held', '{}')");
my $free = send_to('d2', 'free');
take($good, $free);
is($session->query("SELECT fleetlog.cancel_command('$free')"), 'f', 'and one that tries to take a command back that was sent');
is($good->publish_acked("acme/cmd/d2/res/$free", 'succeeded'), 0, 'a command behind an open transaction is answered');
$s->wait_for("SELECT state FROM fleetlog.command WHERE id = '$free'", 'succeeded', 'and over');
$away = $s->device('d3', clean => 0, properties => [ [ 17, 3000 ] ]);
is(join(' ', map { $_->{topic} =~ m{/n(\d+)$} } $away->messages($n)), join(' ', 1 .. $n), 'who comes back gets all, in order');
$s->wait_for("SELECT count(*) FROM fleetlog.command WHERE device = 'd3' AND state = 'delivered'", $n, 'all to be known as delivered');
$session->query('COMMIT');
my $held = $s->sql("SELECT id FROM fleetlog.command WHERE name = 'held'");
take($good, $held);

is(state_of($other), 'delivered', 'the guarded command is still what it was');
is($s->sql("SELECT errors FROM fleetlog.stat_worker WHERE kind = 'commands'"), 0, 'nothing of this was an error of the dispatcher');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
