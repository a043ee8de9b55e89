# C1, C2: kill -9 of the server at every point of dispatch, of taking answers, and at random: no committed command is lost,
# none is sent under two ids or twice into the log, what was rolled back is never sent, and every answer counts once.
use strict;
use warnings;
use Test::More;
use IO::Select;
use JSON::PP;
use Time::HiRes qw(time);
use FleetlogTest;

my $rounds = $ENV{FLEETLOG_ROUNDS} || 3;
my @points = qw(command_chosen command_appended command_before_commit command_after_commit command_taken command_take_before_commit
  command_take_after_commit random);

my $s = FleetlogTest->new('cmdkill');
$s->fleet(devices => 2);
my @devices = map { { id => "d$_", got => {}, flow => {}, answers => [] } } 1, 2;
my $sent = 0;

sub connect_one
{
    my ($d) = @_;
    my $c = FleetlogTest::Mqtt->open($s->port, version => 5);
    my $ack = $c->login(client_id => $d->{id}, user => "acme/$d->{id}", password => "pw-$d->{id}", clean => 0, properties => [ [ 17, 3000 ] ]);

    die "$d->{id} was refused" unless ref $ack && $ack->{reason} == 0;
    $d->{lost}++ if $d->{subscribed} && !$ack->{session_present};
    $d->{c} = $c;
    $c->subscribe([ [ "acme/cmd/$d->{id}/req/+", 1 ] ]) unless $d->{subscribed}++;
    # What was not acknowledged is sent again (MQTT-4.4.0-1).
    unshift @{ $d->{answers} }, map { $d->{flow}{$_} } sort { $a <=> $b } keys %{ $d->{flow} };
    $d->{flow} = {};
    return;
}

# As many at a time as the server takes.
sub answer
{
    my ($d) = @_;
    while (@{ $d->{answers} } && keys %{ $d->{flow} } < 10)
    {
        my $a = shift @{ $d->{answers} };
        $d->{flow}{ $d->{c}->publish(@$a, qos => 1) } = $a;
    }
    return;
}

# Takes what comes, acknowledges it, and answers: what comes again is answered again, as a device may that has forgotten.
sub serve
{
    my ($d) = @_;
    my $n = 0;
    $d->{c}->fill if IO::Select->new($d->{c}{socket})->can_read(0);
    while (ref(my $p = $d->{c}->read_packet(0)))
    {
        delete $d->{flow}{ $p->{pid} } if $p->{name} eq 'PUBACK';
        next unless $p->{name} eq 'PUBLISH';
        my $id = FleetlogTest::Mqtt::property($p, 9);
        $n++;
        $d->{got}{ $p->{payload} }{$id}++;
        $d->{c}->puback($p->{pid});
        push @{ $d->{answers} }, [ "acme/cmd/$d->{id}/ack/$id", '' ], [ "acme/cmd/$d->{id}/res/$id", '{"status":"succeeded"}' ];
    }
    answer($d);
    $d->{ended}++ if $d->{c}{closed};
    return $n;
}

sub pump
{
    my ($seconds, $until) = @_;
    my $end = time + $seconds;
    while (time < $end && !($until && $until->()))
    {
        my $n = 0;
        $n += serve($_) for @devices;
        select(undef, undef, undef, 0.005) unless $n;
    }
    return;
}

sub give
{
    my ($count) = @_;
    my $sql = '';
    for (1 .. $count)
    {
        $sent++;
        my $device = 'acme/d' . ($sent % 2 + 1);
        $sql .= "SELECT fleetlog.send_command('$device', 'n', to_jsonb($sent), ttl => '1 h', answer_timeout => '2 h');\n";
        $sql .= "BEGIN; SELECT fleetlog.send_command('$device', 'never', '0'); ROLLBACK;\n" if $sent % 3 == 0;
    }
    $s->sql($sql);
    return;
}

connect_one($_) for @devices;
give(2);
$s->wait_for('SELECT count(*) FROM fleetlog.command WHERE sent_at IS NOT NULL', 2);
for my $round (1 .. $rounds)
{
    for my $point (@points)
    {
        my $label = "round $round, $point";
        if ($point eq 'random')
        {
            give(6);
            pump(rand 0.1);
        }
        else
        {
            $s->stop_points($point);
            give(3);
            my $looked = 0;
            my $stands;
            pump($FleetlogTest::TIMEOUT, sub { (++$looked % 5) == 0 && ($stands = $s->sql("SELECT count(*) FROM fleetlog.stat_worker WHERE stop_point = '$point'")) });
            ok($stands, "$label: the dispatcher stands there");
            give(2);
            pump(rand 0.05);
        }
        $s->kill9;
        $_->{c}->close for @devices;
        $s->set_conf();
        $s->start_after_crash;
        connect_one($_) for @devices;
    }
}

my $done = 0;
my $looked = 0;
pump($FleetlogTest::TIMEOUT, sub { (++$looked % 20) == 0 && ($done = $s->sql("SELECT count(*) FROM fleetlog.command WHERE state = 'succeeded'")) == $sent });
is($done, $sent, "all $sent committed commands came to their end");
is($s->sql('SELECT count(*) FROM fleetlog.command'), $sent, 'and there are no others');
is($s->sql("SELECT count(*) FROM (SELECT headers ->> 'fl-id' FROM fleetlog.command_log WHERE key ~ '/req/' GROUP BY 1 HAVING count(*) > 1) x"), 0, 'none is twice in the log');
is($s->sql("SELECT count(*) FROM fleetlog.command_log WHERE key ~ '/req/'"), $sent, 'and none is there that is no command');
is($s->sql("SELECT count(*) FROM fleetlog.command c WHERE NOT EXISTS (SELECT FROM fleetlog.command_log l WHERE l.shard = c.shard AND l.log_offset = c.log_offset AND l.headers ->> 'fl-id' = c.id::text)"),
    0, 'each row has the position of its record');
my %got = map { %{ $_->{got} } } @devices;
is(join(' ', sort { $a <=> $b } keys %got), join(' ', 1 .. $sent), 'the devices got each, and nothing that was rolled back');
is(scalar(grep { keys %{ $got{$_} } > 1 } keys %got), 0, 'none under two ids');
is($s->sql("SELECT count(*) FROM (SELECT command, event FROM fleetlog.command_event WHERE event <> 'repeated' GROUP BY 1, 2 HAVING count(*) > 1) x"), 0, 'every event counts once');
is($s->sql('SELECT count(*) FROM (SELECT shard, log_offset FROM fleetlog.command_event WHERE log_offset IS NOT NULL GROUP BY 1, 2 HAVING count(*) > 1) x'), 0, 'no record was taken twice');
is(scalar(grep { $_->{lost} } @devices), 0, 'the sessions were there after every crash');
is(scalar(grep { $_->{ended} } @devices), 0, 'and nobody was sent away');
is($s->crashes, '', 'no other crash');
$s->node->stop;
done_testing();
