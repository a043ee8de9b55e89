# R1, R2, M5: retained messages over MQTT: kept in the state table with their record, sent when a subscription is made,
# cleared by an empty one.  A row that somebody has locked holds up the publisher to that topic and nobody else.
# Cases O11, O35 to O41, O60.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('retained', conf => "fleetlog.allow_anonymous = on\nfleetlog.workers = 1\n");
$s->sql(<<SQL);
SELECT fleetlog.create_stream('telemetry', shards => 3), fleetlog.create_stream('plain');
SELECT fleetlog.create_state('now');
SELECT fleetlog.mount('', 'telemetry', state => 'now'), fleetlog.mount('plain/', 'plain');
SQL

my $n = 0;
sub client
{
    my (%opt) = @_;
    my $c = $s->raw(version => $opt{version} // 5);
    my $ack = $c->login(client_id => 'c' . ++$n, %opt);
    die 'refused' unless ref $ack && $ack->{reason} == 0;
    $c->{connack} = $ack;
    return $c;
}

# What a client gets up to a last message that everybody gets: topic=payload/retain, sorted.  Values in force are read in
# turns of the door behind the one with the SUBSCRIBE, of which the acknowledged messages make some.
my $round = 0;
my $ender;
sub got
{
    my ($c) = @_;
    my $end = 'end-' . ++$round;
    my @got;
    $ender = client() if !$ender || $ender->{closed};
    $ender->publish_acked('the/turns', $_) for 1 .. 3;
    $ender->publish_acked("the/end/$end", $end);
    while (1)
    {
        my ($m) = $c->messages(1);
        die 'the end did not come' unless $m;
        last if $m->{payload} eq $end;
        push @got, $m->{topic} eq 'the/turns' || $m->{topic} =~ m{^the/end/} ? () : "$m->{topic}=$m->{payload}/$m->{retain}";
    }
    return join ' ', sort @got;
}

sub value { return $s->sql("SELECT convert_from(payload, 'UTF8') FROM now WHERE key = '$_[0]'"); }

my $p = client();
my %props = map { $_->[0] => $_->[1] } @{ $p->{connack}{properties} };
is($props{37} // 1, 1, 'Retain Available 1 where a mount has a state table');

# A retained message: the record, its value, the live copy without the flag, and the retained copy for whoever comes later.
my $live = client();
my $live4 = client(version => 4);
$_->subscribe([ [ 'a/#', 1 ], [ 'the/end/#', 0 ] ]) for $live, $live4;
is($p->publish_acked('a/b/c', 'one', retain => 1), 0, 'a retained publish is acknowledged');
is(value('a/b/c'), 'one', 'its value is in the table when the PUBACK is there');
is(got($live), 'a/b/c=one/0', 'O36: a live copy has retain 0');
is(got($live4), 'a/b/c=one/0', 'O36: for 3.1.1 as well');
for my $filter ('a/b/c', '#', '+/b/#', 'a/b/c/#', 'a/+/c', 'a/#')
{
    my $c = client();
    $c->subscribe([ [ $filter, 1 ], [ 'the/end/#', 0 ] ]);
    is(got($c), 'a/b/c=one/1', "O39: $filter gets it with retain 1");
    $c->disconnect;
}
for my $filter ('a/b', 'a/b/c/+', 'b/#', '+')
{
    my $c = client();
    $c->subscribe([ [ $filter, 1 ], [ 'the/end/#', 0 ] ]);
    is(got($c), '', "$filter gets nothing");
    $c->disconnect;
}

# Retain handling (O37), retain as published, QoS, identifiers.
my $h = client();
$h->subscribe([ [ 'the/end/#', 0 ] ]);
$h->subscribe([ [ 'a/b/c', 1 | 0x10 ] ]);
is(got($h), 'a/b/c=one/1', 'O37: retain handling 1 sends at the first SUBSCRIBE');
$h->subscribe([ [ 'a/b/c', 1 | 0x10 ] ]);
is(got($h), '', 'O37: and not at the second');
$h->subscribe([ [ 'a/b/+', 1 | 0x20 ] ]);
is(got($h), '', 'O37: retain handling 2 never');
$h->subscribe([ [ 'a/b/c', 1 ] ]);
is(got($h), 'a/b/c=one/1', 'retain handling 0 always');
$h->subscribe([ [ 'a/b/c', 1 ] ]);
is(got($h), 'a/b/c=one/1', 'and again');
$h->subscribe([ [ 'a/b/c', 1 | 0x08 ] ], properties => [ [ 11, 77 ] ]);
my ($m) = $h->messages(1);
is("$m->{qos} " . join(',', map { $_->[1] } grep { $_->[0] == 11 } @{ $m->{properties} }), '1 77', 'with QoS and identifier of the subscription');
$p->publish_acked('a/b/c', 'two', retain => 1);
like(got($h), qr{a/b/c=two/1}, 'Retain As Published keeps the flag on live copies');

# SUBACK refused: no retained message either (O38).  No Local holds for retained ones as well.
my $nl = client();
$nl->subscribe([ [ 'the/end/#', 0 ] ]);
$nl->publish_acked('nl/x', 'mine', retain => 1);
$nl->subscribe([ [ 'nl/#', 1 | 4 ] ]);
is(got($nl), '', 'No Local: the own retained message is not sent');

# 3.1.1 as well, and over a restart (O40).
my $old = client(version => 4);
$old->publish_acked('a/old', 'v4', retain => 1);
$s->node->restart;
$s->wait_for_mqtt;
undef $ender;
$old = client(version => 4);
$old->subscribe([ [ 'a/#', 1 ], [ 'the/end/#', 0 ] ]);
is(got($old), 'a/b/c=two/1 a/old=v4/1', 'O40: all are there after a restart, and for MQTT 3.1.1');
$old->subscribe([ [ 'a/#', 1 ] ]);
is(got($old), 'a/b/c=two/1 a/old=v4/1', '3.1.1: and again when the filter is subscribed again');
$p = client();

# Expiry counts on while the message is kept (O60).
$p->publish_acked('exp/short', 'gone soon', retain => 1, properties => [ [ 2, 1 ] ]);
$p->publish_acked('exp/long', 'stays', retain => 1, properties => [ [ 2, 120 ] ]);
$s->wait_for("SELECT clock_timestamp() > ts + interval '1500 ms' FROM now WHERE key = 'exp/short'");
my $e = client();
$e->subscribe([ [ 'exp/#', 1 ], [ 'the/end/#', 0 ] ]);
($m) = $e->messages(1);
my ($left) = map { $_->[1] } grep { $_->[0] == 2 } @{ $m->{properties} };
is($m->{topic}, 'exp/long', 'O60: what has expired is not sent');
cmp_ok($left, '<', 120, 'and what is left is told');

# The longest topic that a state table takes, and one byte more.
{
    my $longest = 'L' x 2048;
    my $c = client();
    is($c->publish_acked($longest, 'long', retain => 1), 0, 'a topic of 2048 bytes is retained');
    is($c->publish_acked("${longest}L", 'longer', retain => 1), 0x97, 'of one more it is refused');
    is($c->publish_acked("${longest}L", 'longer'), 0, 'and taken without retain');
    is(join('|', map { $s->sql("SELECT coalesce((SELECT fleetlog.text(payload) FROM now WHERE key = '$_'), '')") } $longest, "${longest}L"), 'long|', 'which retains nothing');
    $c->subscribe([ "$longest" ]);
    is(($c->messages(1))[0]{payload}, 'long', 'the longest one is sent to who subscribes');
    is($c->publish_acked($longest, '', retain => 1), 0, 'and cleared');
    $c->disconnect;
}

# Clearing at QoS 0, 1 and 2; live subscribers get the empty message (O41).
$p->publish_acked('a/two', 'v5', retain => 1);
$live = client();
$live->subscribe([ [ 'a/#', 1 ], [ 'the/end/#', 0 ] ]);
got($live);
$p->publish('a/old', '', retain => 1);
$p->publish_acked('a/b/c', '', retain => 1);
my $two = $p->publish('a/two', '', qos => 2, retain => 1);
is($p->expect('PUBREC')->{pid}, $two, 'O41: PUBREC for the one at QoS 2');
is(got($live), 'a/b/c=/0 a/old=/0 a/two=/0', 'O41: live subscribers get the empty messages');
$s->wait_for("SELECT count(*) = 0 FROM now WHERE key LIKE 'a/%'");
$s->node->restart;
$s->wait_for_mqtt;
undef $ender;
$p = client();
my $c = client();
$c->subscribe([ [ 'a/#', 1 ], [ 'the/end/#', 0 ] ]);
is(got($c), '', 'O41: and nothing is retained');

# A message without retain leaves the value alone.
$p->publish_acked('a/keep', 'kept', retain => 1);
$p->publish_acked('a/keep', 'passing');
is(value('a/keep'), 'kept', 'a message without retain replaces nothing');

# A retained will (O35).
my $w = client(will => { topic => 'will/x', payload => 'dead', qos => 2, retain => 1 });
$w->reset;
$s->wait_for("SELECT count(*) = 1 FROM now WHERE key = 'will/x'");
is(value('will/x'), 'dead', 'O35: a retained will is retained');
$c = client();
$c->subscribe([ [ 'will/x', 1 ] ]);
($m) = $c->messages(1);
is("$m->{payload} $m->{retain} $m->{qos}", 'dead 1 1', 'O35: and sent with retain 1 at the lower QoS');

$w = client(will => { topic => 'will/x', payload => 'passing', qos => 1 });
$w->reset;
$s->wait_for("SELECT count(*) = 1 FROM telemetry WHERE key = 'will/x' AND fleetlog.text(payload) = 'passing'");
is(value('will/x'), 'dead', 'a will without retain replaces nothing');

# A key that is no topic, which only a superuser can have put there, is not sent (O11).
$s->sql("INSERT INTO now SELECT stream, k, shard, log_offset, ts, tenant, device, headers, payload FROM now, unnest(ARRAY['odd/+', 'odd/#', 'odd/' || chr(1)]) k WHERE key = 'will/x'");
$c = client();
$c->subscribe([ [ '#', 1 ], [ 'the/end/#', 0 ] ]);
unlike(got($c), qr/odd/, 'O11: what is no topic is not sent');
$s->sql("DELETE FROM now WHERE key LIKE 'odd/%'");

# Without a state table: refused as announced nowhere else.
my $plain = client();
$plain->publish('plain/x', 'x', qos => 1, retain => 1);
is($plain->ending, '0x9A', 'retain where the mount keeps nothing: 0x9A');
is(client(version => 4)->publish_acked('plain/x', 'x', retain => 1), 0, '3.1.1 cannot be told: a message like any other');

# Many values, more than one turn takes, and more than the window of a QoS 1 subscriber.
$s->sql("SELECT count(fleetlog.publish('many/' || lpad(i::text, 5, '0'), convert_to(i::text, 'UTF8'), retain => true)) FROM generate_series(1, 1200) i");
my $many = client(properties => [ [ 33, 10 ] ]);
$many->subscribe([ [ 'many/#', 1 ] ]);
my @all = $many->messages(1200);
is(scalar @all, 1200, '1,200 retained values arrive through a window of 10');
is(scalar(grep { !$_->{retain} } @all), 0, 'all with retain 1');
is(join(',', map { $_->{topic} } @all), join(',', sort map { $_->{topic} } @all), 'in the order of their topics');

# M5: while one client publishes retained values without a pause, subscribers come; each must end with the last value.
my $writer = client();
my $missed = 0;
for my $i (1 .. 40)
{
    my $sub = client();
    $writer->publish('seam/v', "$i-$_", qos => 1, retain => 1) for 1 .. 3;
    $sub->subscribe([ [ 'seam/v', 1 ] ]);
    $writer->publish('seam/v', "$i-$_", qos => 1, retain => 1) for 4 .. 6;
    my ($last, %seen) = ('');
    while ($last ne "$i-6")
    {
        my ($got) = $sub->messages(1);
        unless ($got) { $missed++; last; }
        $last = $got->{payload};
        # The round before may be in force still, but comes first, and only once, as everything does.
        $missed++ if $seen{$last}++ || ($last !~ /^$i-/ && keys %seen > 1);
    }
    $writer->expect('PUBACK') for 1 .. 6;
    $sub->disconnect;
}
is($missed, 0, 'M5: 40 subscribers beside a writer each saw the last value, none twice');

# What a client has published lies before what it subscribes to afterwards, in one breath too: the retained value is there, and
# nothing comes as new.  A SUBSCRIBE does not wait until a batch of QoS 0 has lingered.
{
    my $linger = $s->sql('SHOW fleetlog.linger');
    $s->set_conf('fleetlog.linger' => '10s');
    for my $version (4, 5)
    {
        for my $session (0, 1)
        {
            my $c = client(version => $version, clean => $session ? 0 : 1, $session && $version == 5 ? (properties => [ [ 17, 1000 ] ]) : ());
            for my $qos (0, 1)
            {
                my $topic = "order/$version/$session/$qos";
                my $filter = pack('n', $c->next_pid) . ($version == 5 ? "\0" : '') . pack('n/a*', $topic) . chr(2);
                my $began = time;
                $c->send_raw($c->publish_packet($topic, 'value', qos => $qos, pid => $c->next_pid, retain => 1) . $c->publish_packet($topic, 'passing', qos => $qos, pid => $c->next_pid)
                    . "\x82" . chr(length $filter) . $filter);
                my @names;
                while (my $packet = $c->read_packet)
                {
                    if ($packet->{name} eq 'PUBLISH') { push @names, "$packet->{payload}/$packet->{retain}"; last }
                    push @names, $packet->{name};
                }
                is("@names", ($qos ? 'PUBACK PUBACK ' : '') . 'SUBACK value/1', "a SUBSCRIBE lies behind what its client has published (version $version, session $session, QoS $qos)");
                cmp_ok(time - $began, '<', 5, 'and waits for no lingering');
                ok($c->quiet(0.2), 'nothing of it comes as new') if $qos == 0;
            }
        }
    }
    $s->set_conf('fleetlog.linger' => $linger);
}

# A locked row: its retained publisher waits for the PUBACK, everybody else goes on, nothing is lost (issue 4).
$p->publish_acked("lock/$_", 'first', retain => 1) for 1 .. 5;
my $holder = $s->session;
$holder->query("BEGIN; SELECT 1 FROM now WHERE key = 'lock/1' FOR UPDATE");
my $victim = client();
my $pid = $victim->publish('lock/1', 'second', qos => 1, retain => 1);
$s->wait_for('SELECT waiting = 1 FROM fleetlog.stat_state');
is($s->sql("SELECT count(*) FROM telemetry WHERE key = 'lock/1'"), 2, 'the record itself is committed');
is($p->publish_acked("lock/$_", 'second', retain => 1), 0, "another topic is not held up ($_)") for 2 .. 5;
is($p->publish_acked('lock/1', 'passing'), 0, 'nor is a message without retain to the same topic');
is($victim->publish_acked('lock/2', 'third', retain => 1), 0, 'nor the same client with another topic');
is(value('lock/1'), 'first', 'the locked row is as it was');
$holder->query('COMMIT');
is($victim->expect('PUBACK')->{pid}, $pid, 'the PUBACK comes when the lock is gone');
is(value('lock/1'), 'second', 'and the value is there then');
is($s->sql('SELECT waiting, deferred > 0, retried > 0 FROM fleetlog.stat_state'), '0|t|t', 'the view has counted it');

# While a value waits, the server is killed: it is there afterwards.
$holder->query("BEGIN; SELECT 1 FROM now WHERE key = 'lock/3' FOR UPDATE");
$victim->publish('lock/3', 'survives', qos => 1, retain => 1);
$s->wait_for('SELECT waiting = 1 FROM fleetlog.stat_state');
# Somebody else's acknowledgement says that the record is flushed, which alone is what may be expected.
$p->publish_acked('lock/4', 'flush', retain => 1);
$s->kill9_and_start;
$s->wait_for("SELECT convert_from(payload, 'UTF8') = 'survives' FROM now WHERE key = 'lock/3'");
is($s->sql('SELECT count(*) FROM fleetlog.state_pending'), 0, 'nothing waits any more');

done_testing();
