# X3, M1, M5, M10, O3: what a front door promises besides the packets: listeners over reloads, login in time, bounded
# buffers, subscriptions that begin where they were made, new mounts, policies for what is not offered, a farewell.
use strict;
use warnings;
use Test::More;
use IO::Socket::INET;
use FleetlogTest;

my $s = FleetlogTest->new('door', conf => "fleetlog.workers = 3\nfleetlog.allow_anonymous = on\nfleetlog.buffer_memory = 8MB\nfleetlog.connect_timeout = 1h\n");
$s->sql("SELECT fleetlog.create_stream('telemetry')");
$s->sql("SELECT fleetlog.mount('t/', 'telemetry')");

my $n = 0;
sub client
{
    my (%opt) = @_;
    my $c = FleetlogTest::Mqtt->open($opt{port} // $s->port, version => $opt{version} // 5);
    my $ack = $c->login(client_id => 'c' . ++$n, %opt);
    die 'refused' unless ref $ack && $ack->{reason} == 0;
    return wantarray ? ($c, $ack) : $c;
}
sub login_reason
{
    my (%opt) = @_;
    my $c = $s->raw(version => $opt{version} // 5);
    my $ack = $c->login(client_id => 'l' . ++$n, %opt);
    return $ack // 'nothing' unless ref $ack;
    my $end = $ack->{reason} ? $c->ending : 'closed';
    return $end eq 'closed' ? $ack->{reason} : "$ack->{reason}, but $end";
}

# What is not offered is refused at CONNECT, where the version can say so.
is(login_reason(properties => [ [ 21, 'GS2-KRB5' ] ]), 0x8C, 'an authentication method that is not offered is refused with 0x8C');
is(login_reason(will => { topic => 't/w', payload => 'x', qos => 1, retain => 1 }), 0x9A, 'a retained will with 0x9A');
is(login_reason(version => 4, will => { topic => 't/w', payload => 'x', qos => 1, retain => 1 }), 0, '3.1.1 cannot be told: accepted');

# A subscription begins where it was made, whichever of the workers has it: nothing older, everything newer.
my $p = client();
my ($older, $missed) = (0, 0);
for my $i (1 .. 40)
{
    my $before = $p->publish_acked('t/x', "before $i");
    my $c = client();
    $c->subscribe([ [ 't/#', 1 ] ]);
    my $after = $p->publish_acked('t/x', "after $i");
    my ($m) = $c->messages(1);
    $older++ if $m && $m->{payload} =~ /before/;
    if (!$m || $m->{payload} ne "after $i")
    {
        $missed++;
        diag("round $i: ", $m ? $m->{payload} : 'nothing, connection ' . $c->ending(0), ", PUBACK $before and $after");
    }
    $c->close;
}
is($older, 0, 'nothing that was acknowledged before the SUBSCRIBE is delivered');
is($missed, 0, 'the first message after the SUBACK is');

# Mounts that are made while subscriptions exist: their first record arrives, at every worker.
my @all = map { my $c = client(); $c->subscribe([ [ '#', 1 ] ]); $c } 1 .. 8;
my $lost = 0;
for my $i (1 .. 5)
{
    $s->sql("SELECT fleetlog.create_stream('n$i', shards => 2)");
    $s->sql("SELECT fleetlog.mount('n$i/', 'n$i')");
    FleetlogTest::wait_until(sub { $p->publish_acked("n$i/a", 'first') == 0 }, 'the mount to be noticed');
    for my $c (@all)
    {
        my ($m) = $c->messages(1);
        $lost++ unless $m && $m->{topic} eq "n$i/a";
    }
}
is($lost, 0, 'the first record of a new mount reaches every subscriber');
$_->close for @all;

# A record under a topic of another stream's mount is not delivered.
my $c = client();
$c->subscribe([ [ 'n1/#', 1 ] ]);
$s->sql("SELECT fleetlog.append('telemetry', 'n1/forged', 'x')");
$p->publish_acked('n1/a', 'true');
is(($c->messages(1))[0]{payload}, 'true', 'a topic is delivered from the stream of its mount only');

# Message expiry: what has expired is left out.
$c = client();
$c->subscribe([ [ 't/e', 1 ] ]);
$p->publish_acked('t/e', 'gone', properties => [ [ 2, 0 ] ]);
$p->publish_acked('t/e', 'there', properties => [ [ 2, 60 ] ]);
is(($c->messages(1))[0]{payload}, 'there', 'an expired message is not delivered');

# Keep alive and refusals by setting.
$s->set_conf('fleetlog.max_keep_alive' => 60, 'fleetlog.mqtt3_refusal' => 'acknowledge');
FleetlogTest::wait_until(sub { my ($k, $ack) = client(keep_alive => 120); (FleetlogTest::Mqtt::property($ack, 19) // 0) == 60 }, 'Server Keep Alive 60');
pass('a longer keep alive is answered with Server Keep Alive');
{
    my ($k, $ack) = client(keep_alive => 30);
    is(FleetlogTest::Mqtt::property($ack, 19), undef, 'a shorter one is left alone');
}
my $old = client(version => 4);
my $pid = $old->publish('nowhere', 'x', qos => 1);
is($old->expect('PUBACK')->{pid}, $pid, 'mqtt3_refusal = acknowledge: acknowledged');
is($s->sql("SELECT count(*) FROM telemetry WHERE key = 'nowhere'"), '0', 'and not stored');
$s->set_conf();
$old = undef;
FleetlogTest::wait_until(sub { my $o = client(version => 4); $o->publish('nowhere', 'x', qos => 1); my $a = $o->read_packet; !ref $a }, 'mqtt3_refusal = close');
pass('mqtt3_refusal = close: closed without an acknowledgement');

# Half packets that nobody can hold all of: the newest are refused, others are served, and the memory comes back.
my @half;
for my $i (1 .. 60)
{
    my $h = client();
    $h->send_raw("\x30" . FleetlogTest::Mqtt::varlen(900_000) . "\0\3t/h" . 'x' x 400_000);
    push @half, $h;
}
is($p->publish_acked('t/x', 'meanwhile'), 0, 'others are served while buffers are full');
my %end;
my $look = sub { for my $i (grep { !$end{$_} } 0 .. $#half) { my $end = $half[$i]->ending(0.02); $end{$i} = $end if $end ne 'open'; } return keys %end > 10; };
FleetlogTest::wait_until($look, 'half packets to be refused');
$look->();
my $ended = grep { $_ eq 'closed' } values %end;
cmp_ok($ended, '>', 10, "of 60 half packets of 400 kB, $ended are refused at fleetlog.buffer_memory");
cmp_ok($ended, '<', 60, 'the first ones keep their place');
$_->close for @half;
$s->wait_for("SELECT count(*) < 10 FROM fleetlog.stat_connection", 't', 'the connections to be gone');

# Listeners over reloads; a port that is taken is named with a hint and had as soon as it is free.
my $second = PostgreSQL::Test::Cluster::get_free_port();
my $taken = PostgreSQL::Test::Cluster::get_free_port();
my $blocker = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $taken, Listen => 1) or die;
$s->set_conf('fleetlog.mqtt_listen' => '127.0.0.1:' . $s->port . ", 127.0.0.1:$second, 127.0.0.1:$taken");
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE state = 'listening'", '6', 'the second listener on every door');
$p->ping;
pass('connections survive a reload of the listeners');
my $there = client(port => $second);
is($there->publish_acked('t/x', 'second'), 0, 'the new listener works');
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE address LIKE '%:$taken' AND state <> 'listening'", '3', 'the view to say which address is taken');
ok($s->wait_for_log(qr/could not listen on 127\.0\.0\.1:$taken.*\n.*HINT:.*fleetlog\.mqtt_listen/), 'so does the log, with a hint');
close $blocker;
$s->wait_for("SELECT count(*) FROM fleetlog.stat_listener WHERE state = 'listening'", '9', 'the free port');
$s->set_conf();
$s->wait_for('SELECT count(*) FROM fleetlog.stat_listener', '3', 'the listeners to be closed');
$there->ping;
pass('what a closed listener has accepted lives on');
my ($rc, undef, $err) = $s->node->psql('fleetlog', "ALTER SYSTEM SET fleetlog.mqtt_listen = 'localhost.example:1883'");
like($err, qr/names are not looked up/, 'a host name is refused with the reason');

# A peer that does not log in is closed in time.
$s->set_conf('fleetlog.connect_timeout' => '2s');
$s->wait_for('SHOW fleetlog.connect_timeout', '2s', 'the reload');
# Up to here it was an hour; a door that has not read the new one yet is asked again.
FleetlogTest::wait_until(sub { $s->raw->ending(10) eq 'closed' }, 'the timeout');
pass('no CONNECT within fleetlog.connect_timeout: closed');

# The end: 5.0 is told.
my $five = client();
my $four = client(version => 4);
$s->node->stop('fast');
is($five->ending, '0x8B', 'at shutdown 5.0 is told 0x8B');
is($four->ending, 'closed', 'and 3.1.1 is closed');
is($s->crashes, '', 'no crash');
done_testing();
