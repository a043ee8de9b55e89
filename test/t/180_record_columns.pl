# L2, P1, P2: what becomes of a PUBLISH: identity, keys, times, headers in order, payload untouched; and back to
# subscribers of both versions.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('columns', conf => "fleetlog.workers = 2\n");
$s->fleet(shards => 4, devices => 2);
my $d1 = $s->device('d1');
my $v5 = $s->device('d1', client_id => 'v5');
my $v4 = $s->device('d1', client_id => 'v4', version => 4);
$_->subscribe([ [ 'acme/d1/#', 1 ] ]) for $v5, $v4;

my @user = ([ 38, 'b', '1' ], [ 38, 'a', '2' ], [ 38, 'b', '3' ], [ 38, 'fl.role', 'forged' ], [ 38, 'content-type', 'forged' ], [ 38, '', '' ]);
my $start = $s->sql('SELECT clock_timestamp()');
my $started = time;
is($d1->publish_acked('acme/d1/t', "\x00\xff{}", properties => [ [ 1, 0 ], [ 3, 'application/json' ], [ 8, 'acme/d1/answer' ], [ 9, "\x01\x02" ], [ 2, 100 ], @user ]),
    0, 'published with every property');
is($s->sql("SELECT tenant || ' ' || device || ' ' || key || ' ' || (key_bytes IS NULL)::text || ' ' || encode(payload, 'hex') FROM telemetry"),
    'acme d1 acme/d1/t true 00ff7b7d', 'identity, key and payload');
is($s->sql("SELECT created IS NULL FROM telemetry"), 't', 'no time of its own');
is($s->sql("SELECT ts BETWEEN '$start' AND now() FROM telemetry"), 't', 'append time');
my $list = $s->sql("SELECT name || '=' || coalesce(convert_from(value, 'UTF8'), 'NULL') || CASE WHEN reserved THEN '!' ELSE '' END FROM telemetry, fleetlog.headers_array(headers) WHERE name <> 'correlation-data' AND name <> 'message-expiry' AND (NOT reserved OR name NOT LIKE 'fl.%') ORDER BY ordinal");
like($list, qr/^content-type=application\/json!$/m, 'content type is ours');
like($list, qr/^response-topic=acme\/d1\/answer!$/m, 'response topic');
like($list, qr/\Qb=1\E\n\Qa=2\E\n\Qb=3\E\nfl\.role=forged\ncontent-type=forged\n=$/, 'user properties in order, never taken for ours');
is($s->sql("SELECT encode(value, 'hex') FROM telemetry, fleetlog.headers_array(headers) WHERE name = 'correlation-data' AND reserved"), '0102', 'correlation data are bytes');
is($s->sql("SELECT convert_from(value, 'UTF8')::timestamptz - interval '100 s' BETWEEN '$start'::timestamptz - interval '1 s' AND ts + interval '1 s' FROM telemetry, fleetlog.headers_array(headers) WHERE name = 'message-expiry' AND reserved"),
    't', 'message expiry as absolute time') or diag($s->sql('SELECT headers FROM telemetry'));
is($s->sql("SELECT headers ->> 'b' FROM telemetry"), '3', 'as jsonb: the last value of a name');

my ($m) = $v5->messages(1);
is(join(' ', map { join '=', @$_[ 1 .. $#$_ ] } grep { $_->[0] == 38 } @{ $m->{properties} }), join(' ', map { join '=', @$_[ 1, 2 ] } @user), 'a 5.0 subscriber gets the user properties in order');
is(FleetlogTest::Mqtt::property($m, 1), 0, 'payload format indicator');
is(FleetlogTest::Mqtt::property($m, 3), 'application/json', 'content type');
is(FleetlogTest::Mqtt::property($m, 8), 'acme/d1/answer', 'response topic');
is(FleetlogTest::Mqtt::property($m, 9), "\x01\x02", 'correlation data');
my $left = FleetlogTest::Mqtt::property($m, 2);
my $passed = time - $started;
ok(defined $left && $left >= 98 - $passed && $left <= 100, 'message expiry counted down') or diag(($left // 'none') . " after $passed s");
is($m->{payload}, "\x00\xff{}", 'payload');
($m) = $v4->messages(1);
is("$m->{topic} " . unpack('H*', $m->{payload}), 'acme/d1/t 00ff7b7d', 'a 3.1.1 subscriber gets topic and payload');

# E1: what only the packet knew; the client id where it says more than the device's id.
my ($same, $named) = ($s->device('d2', client_id => 'd2'), $s->device('d2', client_id => 'gauge'));
$_->subscribe([ [ 'acme/d2/#', 1 | 4 ] ]) for $same, $named;
$same->publish_acked('acme/d2/e1', 'same');
$named->publish_acked('acme/d2/e1', 'named');
is($s->sql("SELECT string_agg(fleetlog.text(payload) || ':' || (headers ->> 'fl.qos') || ':' || ((headers ->> 'fl.packet-id')::int > 0) || ':' || coalesce(headers ->> 'fl.client-id', '-'), ' ' ORDER BY payload) FROM telemetry WHERE key = 'acme/d2/e1'"),
    'named:1:true:gauge same:1:true:-', 'QoS and packet id; the client id is left out where it is the device id');
is($s->sql("SELECT bool_and((headers ->> 'fl.received-at')::timestamptz BETWEEN '$start'::timestamptz - interval '2 ms' AND ts + interval '2 ms') FROM telemetry WHERE key = 'acme/d2/e1'"), 't', 'time of receipt, before that of the append');
is(($named->messages(1))[0]{payload} . ' ' . ($same->messages(1))[0]{payload}, 'same named', 'No Local knows both from each other');

# An empty payload is empty, not NULL.
$d1->publish_acked('acme/d1/empty', '');
is($s->sql("SELECT payload = '' FROM telemetry WHERE key = 'acme/d1/empty'"), 't', 'an empty payload is empty and not NULL');
is(($v5->messages(1))[0]{payload}, '', 'and is delivered');

# P1: one key, one shard, by Kafka's partitioner, at every door.
for my $n (1 .. 40) { $d1->publish_acked("acme/d1/k$n", 'mqtt'); }
is($s->sql("SELECT count(*) FROM telemetry WHERE shard <> fleetlog._partition(convert_to(key, 'UTF8'), 4)"), '0', 'a device and the partitioner agree');
$s->sql("SELECT count(fleetlog.append('telemetry', 'acme/d1/k' || n, 'sql')) FROM generate_series(1, 40) n");
$s->sql("SELECT fleetlog.publish('acme/d1/k' || n, 'publish') FROM generate_series(1, 40) n");
is($s->sql("SELECT count(*) FROM (SELECT key FROM telemetry WHERE key LIKE 'acme/d1/k%' GROUP BY key HAVING count(DISTINCT shard) <> 1 OR count(*) <> 3) x"),
    '0', 'SQL puts a key into the same shard');
my @from_sql = grep { $_->{payload} eq 'publish' || $_->{payload} eq 'sql' } $v5->messages(120);
is(scalar @from_sql, 80, 'append() and publish() reach subscribers as a device does');
is($s->sql("SELECT count(*) FROM telemetry WHERE fleetlog.text(payload) IN ('sql', 'publish') AND (tenant IS NOT NULL OR device IS NOT NULL)"), '0', 'and have no device');

# P2: templates of a mount.
$s->sql("SELECT fleetlog.alter_mount('acme/', record_key => '{device}:{level 3}', shard_key => '{device}')");
FleetlogTest::wait_until(sub { $d1->publish_acked('acme/d1/temp/x', 'templated'); $s->sql("SELECT count(*) FROM telemetry WHERE key = 'd1:temp'") > 0 }, 'the templates');
is($s->sql("SELECT DISTINCT headers ->> 'fl.topic' FROM telemetry WHERE key = 'd1:temp'"), 'acme/d1/temp/x', 'the topic is kept in fl.topic');
is($s->sql("SELECT count(*) FROM telemetry WHERE key = 'd1:temp' AND shard <> fleetlog._partition('d1'::bytea, 4)"), '0', 'the shard follows the shard key');
my @templated = grep { $_->{payload} eq 'templated' } $v5->messages(1);
is($templated[0]{topic}, 'acme/d1/temp/x', 'subscribers get the topic');

# A record that SQL wrote without any topic, or with a key that is none, reaches nobody and harms nobody.
$s->sql("SELECT fleetlog.append('telemetry', NULL, 'no key'), fleetlog.append('telemetry', 'a/#', 'no topic'), fleetlog.append('telemetry', '', 'empty key')");
$s->sql("SELECT fleetlog.append('telemetry', 'acme/d1/ok', 'after')");
my @last;
while (!@last || $last[-1]{payload} ne 'after') { push @last, $v5->messages(1) or last; }
is($last[-1]{payload}, 'after', 'the feed goes on behind records that have no topic');
is(scalar(grep { $_->{payload} =~ /no key|no topic|empty key/ } @last), 0, 'which are not delivered');
is($s->density_faults, '', 'offsets dense, time in order');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
