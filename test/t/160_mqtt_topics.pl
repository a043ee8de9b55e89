# M1, M3: wildcards, $-topics, mounts and their longest prefix, overlapping subscriptions, subscription identifiers,
# no local, order.  Cases O42, O43, O57, O58.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('topics', conf => "fleetlog.allow_anonymous = on\n");
$s->sql("SELECT fleetlog.create_stream('telemetry'), fleetlog.create_stream('inner', shards => 4)");
$s->sql("SELECT fleetlog.mount('', 'telemetry'), fleetlog.mount('plant/a/', 'inner')");

my $n = 0;
sub client
{
    my (%opt) = @_;
    my $c = $s->raw(version => $opt{version} // 5);
    my $ack = $c->login(client_id => 'c' . ++$n, %opt);
    die 'refused' unless ref $ack && $ack->{reason} == 0;
    return $c;
}

# The payloads a client got once a last message, which everybody gets, has come.
my $round = 0;
sub sent_and_got
{
    my ($publisher, $topics, @subscribers) = @_;
    my $end = 'end-' . ++$round;
    my @got;

    is($publisher->publish_acked($_, $_), 0, "published $_") for @$topics;
    $publisher->publish_acked('the/end', $end);
    for my $c (@subscribers)
    {
        my @mine;
        while (1)
        {
            my ($m) = $c->messages(1);
            die 'the end did not come' unless $m;
            last if $m->{payload} eq $end;
            push @mine, $m;
        }
        push @got, \@mine;
    }
    return @got;
}
sub listener
{
    my (@filters) = @_;
    my $c = client();
    $c->subscribe([ @filters, 'the/end' ]);
    return $c;
}
sub topics_of { return join ' ', map { $_->{topic} } @{ $_[0] }; }

my $p = client();

# The matching table of MQTT 4.7.
my @published = ('sport', 'sport/tennis/player1', 'sport/tennis/player1/ranking', 'sport/tennis', '/finance', 'a//b', 'A/b', 'sport/');
my %expected = (
    'sport/tennis/player1/#' => 'sport/tennis/player1 sport/tennis/player1/ranking',
    'sport/#' => 'sport sport/tennis/player1 sport/tennis/player1/ranking sport/tennis sport/',
    '#' => join(' ', @published),
    'sport/tennis/+' => 'sport/tennis/player1',
    'sport/+' => 'sport/tennis sport/',
    '+/+' => 'sport/tennis /finance A/b sport/',
    '/+' => '/finance',
    '+' => 'sport',
    'a/+/b' => 'a//b',
    'a/b' => '',
    '+/b' => 'A/b',
    'sport/+/player1/#' => 'sport/tennis/player1 sport/tennis/player1/ranking');
my @filters = sort keys %expected;
my @clients = map { $_ eq '#' ? client() : listener($_) } @filters;
for my $i (0 .. $#filters) { $clients[$i]->subscribe(['#']) if $filters[$i] eq '#'; }
my @got = sent_and_got($p, \@published, @clients);
is(topics_of($got[$_]), $expected{ $filters[$_] }, "filter $filters[$_]") for 0 .. $#filters;

# O57: $-topics are not for wildcards at the first level; O58: publishing to them is refused and harms nobody.
my ($all, $plus, $x) = (client(), listener('+/#'), listener('+/x'));
$all->subscribe(['#']);
for my $topic ('$foo', '$', '$SYS/x', '$share/a/b')
{
    my $c = client();
    my $pid = $c->publish($topic, 'x', qos => 1);
    my $answer = $c->read_packet;
    ok((!ref $answer) || ($answer->{reason} // 0) >= 0x80, "O58: PUBLISH to $topic is refused");
    my $old = client(version => 4);
    $old->publish($topic, 'x');
    $old->send_hex('c000');
    $p->ping;
}
@got = sent_and_got($p, [], $all, $plus, $x);
is(join('|', map { topics_of($_) } @got), '||', 'O57: none of them is delivered to wildcards');
is($s->sql("SELECT count(*) FROM telemetry WHERE key LIKE '\$%'"), '0', 'nor stored');

# The longest mount wins.
$p->publish_acked('plant/a/t', 'in');
$p->publish_acked('plant/ab/t', 'out');
$p->publish_acked('plant/a', 'out');
is($s->sql("SELECT count(*) FROM \"inner\" WHERE fleetlog.text(payload) = 'in'"), '1', 'the longest prefix takes it');
is($s->sql("SELECT string_agg(key, ' ' ORDER BY log_offset) FROM telemetry WHERE fleetlog.text(payload) = 'out'"), 'plant/ab/t plant/a', 'prefixes are whole levels');
# Without the empty mount there is no home for other topics.
$s->sql("SELECT fleetlog.unmount('')");
FleetlogTest::wait_until(sub { $p->publish_acked('elsewhere', 'x') != 0 }, 'the unmount to be noticed');
my $reason = $p->publish_acked('elsewhere', 'x');
ok($reason == 0x87 || $reason == 0x90, sprintf 'outside every mount: reason 0x%02X', $reason);
is($p->publish_acked('plant/a/t', 'in'), 0, 'the other mount still works');
like(PostgreSQL::Test::Utils::slurp_file($s->node->logfile), qr/mount/, 'a log line names the remedy');
$s->sql("SELECT fleetlog.mount('', 'telemetry')");
FleetlogTest::wait_until(sub { $p->publish_acked('elsewhere', 'x') == 0 }, 'the mount to be noticed');

# O42: overlapping filters: one copy, at the highest QoS, with every identifier.  O43: nobody else's identifiers.
my $over = client();
$over->subscribe([ [ 'T/#', 0 ] ], properties => [ [ 11, 1 ] ]);
$over->subscribe([ [ 'T/+', 1 ], 'the/end' ], properties => [ [ 11, 268435455 ] ]);
my $other = client();
$other->subscribe([ [ 'T/C', 1 ], 'the/end' ], properties => [ [ 11, 7 ] ]);
my $over4 = client(version => 4);
$over4->subscribe([ [ 'T/#', 0 ], [ 'T/+', 1 ], 'the/end' ]);
@got = sent_and_got($p, ['T/C'], $over, $other, $over4);
is(join(',', map { $_->{qos} } @{ $got[2] }), '1', 'O42: one copy at the highest QoS in 3.1.1');
is(scalar @{ $got[0] }, 1, 'O42: one copy');
is($got[0][0]{qos}, 1, 'O42: at the highest QoS');
is(join(',', sort { $a <=> $b } map { $_->[1] } grep { $_->[0] == 11 } @{ $got[0][0]{properties} }), '1,268435455', 'O43: both of its identifiers');
is(join(',', map { $_->[1] } grep { $_->[0] == 11 } @{ $got[1][0]{properties} }), '7', "O43: not the other client's");
# A second SUBSCRIBE of the same filter replaces the first.
$over->subscribe([ [ 'T/+', 0 ] ], properties => [ [ 11, 9 ] ]);
@got = sent_and_got($p, ['T/C'], $over);
is($got[0][0]{qos}, 0, 'a filter subscribed again has the new QoS');
is(join(',', sort { $a <=> $b } map { $_->[1] } grep { $_->[0] == 11 } @{ $got[0][0]{properties} }), '1,9', 'and the new identifier');
is(join(',', $over->unsubscribe('T/+', 'T/#', 'never/held')), join(',', 0, 0, 0x11), 'UNSUBSCRIBE tells held from never held');
@got = sent_and_got($p, ['T/C'], $over);
is(scalar @{ $got[0] }, 0, 'after UNSUBSCRIBE nothing comes');

# No Local; retain flag; DUP and QoS of deliveries.
my $local = client();
$local->subscribe([ [ 'L/1', 1 | 4 ], [ 'L/2', 1 ] ]);
$local->publish('L/1', 'own', qos => 1);
$local->publish('L/2', 'own', qos => 1);
my @m = $local->messages(1);
is($m[0]{topic}, 'L/2', 'no local: the own message does not come back');
is($m[0]{retain} . $m[0]{dup}, '00', 'retain and DUP are 0');
$p->publish('L/1', 'foreign', qos => 1, dup => 1);
@m = $local->messages(1);
is("$m[0]{payload} $m[0]{dup}", 'foreign 0', "another's does, and its DUP is not passed on");
is($p->expect('PUBACK')->{reason}, 0, 'acknowledged');
$p->publish('L/2', 'qos 0');
@m = $local->messages(1);
is("$m[0]{qos} $m[0]{dup}", '0 0', 'QoS is the lower of both, and DUP is 0');

# Order of one publisher's messages on one topic, a thousand of them.
my $ordered = client();
$ordered->subscribe([ [ 'plant/a/order', 1 ] ]);
# Every other one waits for its PUBACK, since more may not be under way than the receive maximum says.
$_ % 2 ? $p->publish_acked('plant/a/order', $_) : $p->publish('plant/a/order', $_) for 1 .. 1000;
my @numbers = map { $_->{payload} } $ordered->messages(1000);
is(join(' ', grep { $_ % 2 } @numbers), join(' ', grep { $_ % 2 } 1 .. 1000), 'QoS 1 messages are whole and in order');
is(join(' ', grep { $_ % 2 == 0 } @numbers), join(' ', grep { $_ % 2 == 0 } 1 .. 1000), 'and so are those of QoS 0 (MQTT-4.6.0-6 orders each QoS)');
is($s->sql("SELECT count(DISTINCT shard) FROM \"inner\" WHERE key = 'plant/a/order'"), '1', 'one topic lies in one shard');
is($s->sql("SELECT string_agg(fleetlog.text(payload), ' ' ORDER BY log_offset) FROM \"inner\" WHERE key = 'plant/a/order'"), join(' ', 1 .. 1000), 'in the order sent');
is($s->density_faults . $s->density_faults('"inner"'), '', 'offsets dense, time in order');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
