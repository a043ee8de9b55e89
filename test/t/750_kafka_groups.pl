# K2, K6: consumer groups by single requests: two members, commits of who may and who may not, static members, members that
# vanish, positions shared with take(), what tools ask and delete; a restart of the server, of the door and of the positions
# worker.  Cases F4, F5, F6, D9, I15, I16, I19.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::KafkaGroup;

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $s = FleetlogTest->new('kafka_groups', conf => <<CONF);
fleetlog.kafka_listen = '127.0.0.1:$port'
fleetlog.allow_anonymous = on
fleetlog.kafka_rebalance_delay = 0
fleetlog.kafka_session_timeout_min = 100ms
fleetlog.worker_retry = 100ms
CONF
$s->sql("SELECT fleetlog.create_stream('t', shards => 4); SELECT fleetlog.create_stream('u')");
sub wait_for_door { $s->wait_for("SELECT count(*) >= 1 FROM fleetlog.stat_listener WHERE protocol = 'kafka' AND state = 'listening'", 't', 'the Kafka door'); return; }
wait_for_door();
sub member { return FleetlogTest::KafkaGroup->open($port, @_); }
sub members { return $s->sql("SELECT count(*) FROM fleetlog.stat_group_member WHERE name = '$_[0]'"); }
sub state { return $s->sql("SELECT min(state) FROM fleetlog.stat_group WHERE name = '$_[0]'"); }

# ---- two members ----

my ($x, $y) = (member(), member());
is($x->join_group, 0, 'a member joins');
ok($x->{leads} && $x->{generation} == 1 && $x->{protocol} eq 'range', 'it leads the first generation');
is($x->sync({ $x->{id} => 'all' }), 0, 'it assigns');
is($x->{assignment}, 'all', 'and is told its assignment');
is($x->heartbeat, 0, 'heartbeat');
$y->send_join;
is($y->read_join, 79, 'a newcomer is given an id');
$y->send_join;
$s->wait_for("SELECT min(state) FROM fleetlog.stat_group WHERE name = 'g'", 'PreparingRebalance');
is($x->heartbeat, 27, 'the other is told to join again');
is_deeply([ $x->commit([ 't', 0, 5 ]) ], [0], 'and may still commit');
is($y->read_join(0), undef, 'the newcomer waits');
$x->send_join;
is($x->read_join, 0, 'the first one joins again');
is($y->read_join, 0, 'and both are let in');
ok($x->{leads} && !$y->{leads}, 'the first one leads');
is_deeply([ sort map { $_->{id} } @{ $x->{members} } ], [ sort $x->{id}, $y->{id} ], 'it is told who the members are');
is_deeply($y->{members}, [], 'the other is not');
is_deeply([ $x->commit([ 't', 0, 6 ]) ], [27], 'before the assignment nobody commits');
$y->send_sync;
is($x->sync({ $x->{id} => 'left', $y->{id} => 'right' }), 0, 'the leader assigns');
is($y->read_sync, 0, 'the follower is released');
is("$x->{assignment} $y->{assignment}", 'left right', 'each has its own');

# ---- commits ----

is_deeply([ $x->commit([ 't', 0, 10, 7, 'here' ], [ 't', 9, 1 ], [ 'nothing', 0, 1 ], [ 't', 1, 20 ], [ 't', 2, 1, -1, 'm' x 4097 ]) ],
    [ 0, 3, 3, 0, 12 ], 'commits: each partition has its own error');
is_deeply($y->fetch([ 't', 0, 1, 2 ], [ 'nothing', 0 ]), { 't:0' => '10 7 here', 't:1' => '20 -1 ', 't:2' => '-1 -1 ', 'nothing:0' => '-1 -1 ', '!' => 0 },
    'D9: offsets, epochs and metadata come back; what nobody has committed is no error');
is_deeply($y->fetch, { 't:0' => '10 7 here', 't:1' => '20 -1 ', '!' => 0 }, 'all of the group');
is($s->sql("SELECT string_agg(concat_ws(' ', shard, log_offset, epoch, metadata), ', ' ORDER BY shard) FROM fleetlog.consumer_position WHERE consumer = 'g'"),
    '0 10 7 here, 1 20 ', 'they are rows');
my $stale = member();
@{$stale}{qw(id generation)} = ($y->{id}, $y->{generation} - 1);
is_deeply([ $stale->commit([ 't', 0, 3 ]) ], [22], 'I19: a stale generation commits nothing');
is($stale->heartbeat, 22, 'nor is it alive');
$stale->{id} = 'nobody';
is_deeply([ $stale->commit([ 't', 0, 3 ]) ], [25], 'I19: nor does who is no member');
@{$stale}{qw(id generation)} = ($y->{id}, -1);
is_deeply([ $stale->commit([ 't', 0, 3 ]) ], [22], 'F8: a member that has lost its generation is told so, and that it is known');
@{$stale}{qw(id generation)} = ('', -1);
is_deeply([ $stale->commit([ 't', 0, 3 ]) ], [25], 'nor who says that he is none');
is($y->fetch->{'t:0'}, '10 7 here', 'nothing has changed');
$stale->{group} = 'simple';
is_deeply([ $stale->commit([ 't', 0, 3 ]) ], [0], 'in a group without members he may');

# F6: version 1 has no error but in partitions.
my $long = 'x' x 300;
my $a = $stale->call('OffsetFetch', 1, FleetlogTest::KafkaGroup::str($long) . FleetlogTest::KafkaGroup::array(FleetlogTest::KafkaGroup::str('t') . FleetlogTest::KafkaGroup::array(FleetlogTest::KafkaGroup::i32(0))));
$a->i32; $a->str; $a->i32; $a->i32; $a->i64; $a->str;
is($a->i16, 24, 'F6: an error of the group is in each partition');

# ---- take() and groups are the same consumers ----

$s->sql("SELECT count(fleetlog.append('u', 'k', 'v'::bytea)) FROM generate_series(1, 10)");
$stale->{group} = 'shared';
is_deeply([ $stale->commit([ 'u', 0, 4 ]) ], [0], 'a position is committed');
is($s->sql("SELECT min(log_offset) || ' ' || count(*) FROM fleetlog.take('shared', 'u')"), '4 6', 'take() goes on there');
is($stale->fetch([ 'u', 0 ])->{'u:0'}, '10 0 ', 'and the group behind it');
is($s->sql("SELECT kind, stream, shard, position, lag, members FROM fleetlog.stat_group WHERE name = 'shared'"), 'consumer|u|0|10|0|0', 'stat_group');
{
    my $session = $s->session;
    $session->query("BEGIN; SELECT count(*) FROM fleetlog.take('shared', 'u')");
    is_deeply([ $stale->commit([ 'u', 0, 4 ]) ], [14], 'while a transaction has them the client is told to come again');
    is_deeply([ $x->commit([ 't', 3, 1 ]) ], [0], 'other groups go on');
    $session->query('COMMIT');
    is_deeply([ $stale->commit([ 'u', 0, 4 ]) ], [0], 'then it may');
}

# ---- members go ----

is($y->leave, 0, 'a member leaves');
is($y->leave, 25, 'once');
is($x->heartbeat, 27, 'the other is told');
is($x->join_group, 0, 'and joins again');
$x->sync({ $x->{id} => 'all' });
$x->leave;
is(state('g'), 'Empty', 'the group is empty');

# F5: connections break while they wait.
my @gone = map { member(group => 'gone') } 1 .. 2;
is($gone[0]->join_group(session => 1000, rebalance => 60000), 0, 'one is in');
$gone[1]->send_join(session => 1000);
$gone[1]->read_join;
$gone[1]->send_join(session => 1000);
# It waits for the first one; or that one's session has ended before, and it is in.
$s->wait_for("SELECT count(*) = 2 OR max(generation) > 1 FROM fleetlog.stat_group_member WHERE name = 'gone'", 't', 'the second to have joined');
$_->close for @gone;
$s->wait_for("SELECT min(state) FROM fleetlog.stat_group WHERE name = 'gone'", 'Empty', 'F5: the group to be empty when both sessions have ended');

# I16
my $odd = member(group => 'odd');
for my $session (-1, 0, 2147483647) { $odd->send_join(session => $session); is($odd->read_join, 26, "I16: a session of $session ms"); }

# F4, I15: a static member is back before the assignment, and later.
my ($p, $q) = (member(group => 'static', instance => 'p'), member(group => 'static', instance => 'q'));
is($p->join_group, 0, 'a static member joins');
$p->sync({});
$q->send_join;
$s->wait_for("SELECT min(state) FROM fleetlog.stat_group WHERE name = 'static'", 'PreparingRebalance');
$p->send_join;
is($q->read_join, 0, 'another');
is($p->read_join, 0, 'both');
my $again = member(group => 'static', instance => 'q');
$again->send_join;
$s->wait_for("SELECT min(state) FROM fleetlog.stat_group WHERE name = 'static'", 'PreparingRebalance');
is($p->sync({ $p->{id} => 'a', $q->{id} => 'b' }), 27, 'F4: the assignment would be for ids that are not there any more');
$p->send_join;
is($p->read_join, 0, 'F4: the leader joins again');
is($again->read_join, 0, 'F4: with the member that is back');
is($q->heartbeat, 82, 'the old one is fenced');
is($p->sync({ $p->{id} => 'a', $again->{id} => 'b' }), 0, 'F4: assigned');
is($again->sync, 0, 'F4: told');
is($again->{assignment}, 'b', 'F4: not empty');
my $third = member(group => 'static', instance => 'q');
is($third->join_group, 0, 'back in a group that is at rest');
is($third->sync, 0, 'no rebalance');
is($third->{assignment}, 'b', 'the same assignment');
is($p->heartbeat, 0, 'the other has noticed nothing');
is_deeply([ $again->commit([ 't', 0, 1 ]) ], [82], 'the one before is fenced');
$p->send_join;
$s->wait_for("SELECT min(state) FROM fleetlog.stat_group WHERE name = 'static'", 'PreparingRebalance', 'I15: a leader that joins again makes the group rebalance');
$third->send_join;
is($p->read_join, 0, 'I15: it is in');
ok($p->{leads} && @{ $p->{members} } == 2, 'I15: and leads, with the list');
$third->read_join;

# ---- what tools ask ----

sub describe
{
    my ($group) = @_;
    my $d = $x->call('DescribeGroups', 4, FleetlogTest::KafkaGroup::array(FleetlogTest::KafkaGroup::str($group)) . "\0");
    $d->i32; $d->i32;
    my ($error, undef, $state, $type, $protocol) = ($d->i16, $d->str, $d->str, $d->str, $d->str);
    my @ids = map { my $instance; $d->str; $instance = $d->str; $d->str; $d->str; $d->bytes; $d->bytes; $instance // '-' } 1 .. $d->i32;
    return join ' ', $error, $state, $type, @ids;
}
is(describe('static'), '0 CompletingRebalance consumer p q', 'DescribeGroups');
is(describe('simple'), '0 Empty ', 'a group that has positions only');
is(describe('no such'), '0 Dead ', 'one that is not');
my $l = $x->call('ListGroups', 2, '');
$l->i32; $l->i16;
my %listed = map { my $name = $l->str; $name => $l->str } 1 .. $l->i32;
is_deeply(\%listed, { g => 'consumer', gone => 'consumer', simple => '', shared => '', static => 'consumer' }, 'ListGroups');
sub delete_groups
{
    my $d = $x->call('DeleteGroups', 1, FleetlogTest::KafkaGroup::array(map { FleetlogTest::KafkaGroup::str($_) } @_));
    $d->i32;
    return join ' ', map { $d->str . ' ' . $d->i16 } 1 .. $d->i32;
}
is(delete_groups('simple', 'static', 'no such', 'gone'), 'simple 0 static 68 no such 69 gone 0', 'DeleteGroups');
is($s->sql("SELECT count(*) FROM fleetlog.consumer_position WHERE consumer = 'simple'"), 0, 'its positions are gone');
my $o = $x->call('OffsetDelete', 0, FleetlogTest::KafkaGroup::str('g') . FleetlogTest::KafkaGroup::array(FleetlogTest::KafkaGroup::str('t') . FleetlogTest::KafkaGroup::array(map { FleetlogTest::KafkaGroup::i32($_) } 0, 9)));
my $delete_error = $o->i16; $o->i32; $o->i32; $o->str; $o->i32;
is(join(' ', $delete_error, map { $o->i32; $o->i16 } 1 .. 2), '0 0 3', 'OffsetDelete');
is($x->fetch([ 't', 0 ])->{'t:0'}, '-1 -1 ', 'that position is gone');
my $f = $x->call('FindCoordinator', 2, FleetlogTest::KafkaGroup::str('g') . "\0");
$f->i32;
is(join(' ', $f->i16, $f->str // '', $f->i32, $f->str, $f->i32), "0  1 127.0.0.1 $port", 'FindCoordinator: the address of this listener');

# ---- ends ----

$s->sql("SELECT pg_terminate_backend(pid) FROM fleetlog.stat_worker WHERE kind = 'positions'");
$x->{id} = '';
$x->{generation} = -1;
is_deeply([ $x->commit([ 't', 1, 99 ]) ], [0], 'a commit waits for the next positions worker');
my $survivor = member(group => 'survivor');
is($survivor->join_group(session => 60000), 0, 'a member');
$survivor->sync({ $survivor->{id} => 'mine' });
$s->sql("SELECT pg_terminate_backend(w.pid) FROM fleetlog.stat_worker w JOIN fleetlog.stat_listener l USING (pid) WHERE l.protocol = 'kafka'");
my ($id, $generation) = @{$survivor}{qw(id generation)};
is($survivor->answer, 'closed', 'the door has gone');
wait_for_door();
$survivor = FleetlogTest::KafkaGroup->open($port, group => 'survivor');
@{$survivor}{qw(id generation)} = ($id, $generation);
is($survivor->heartbeat, 0, 'members outlive the door');
is_deeply([ $survivor->commit([ 't', 2, 8 ]) ], [0], 'and commit');
$s->kill9_and_start;
wait_for_door();
$survivor = FleetlogTest::KafkaGroup->open($port, group => 'survivor');
@{$survivor}{qw(id generation)} = ($id, $generation);
is($survivor->heartbeat, 25, 'a crash of the server makes members unknown');
is_deeply([ $survivor->commit([ 't', 2, 1 ]) ], [25], 'who then cannot commit');
is($survivor->fetch->{'t:2'}, '8 -1 ', 'what was committed is there');
$survivor->{id} = '';
is($survivor->join_group, 0, 'they join again');

is($s->crashes, '', 'no process crashed');
done_testing();
