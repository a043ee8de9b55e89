# M1, M7: public cases about shared subscriptions: a member that goes, members that are away, all members away, over reconnect,
# takeover, restart and kill -9; the plain twin of a shared filter.  Cases O45, O46, O47.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('groups', conf => "fleetlog.worker_retry = 100ms\n");
$s->fleet(devices => 2, shards => 2);

sub member
{
    my ($id, %opt) = @_;
    my $c = $s->raw(version => $opt{version} // 5);
    my @properties = ($opt{version} // 5) == 5 ? ([ 17, $opt{expiry} // 300 ], $opt{rm} ? [ 33, $opt{rm} ] : ()) : ();
    my $ack = $c->login(client_id => $id, user => 'acme/d1', password => 'pw-d1', clean => $opt{clean} // 0, properties => \@properties);
    die 'refused' unless ref $ack && $ack->{reason} == 0;
    $c->{present} = $ack->{session_present};
    return $c;
}
# It is when where its session stands has been written.
sub is_gone
{
    my ($id) = @_;
    $s->wait_for("SELECT NOT EXISTS (SELECT FROM fleetlog.stat_connection WHERE client_id = '$id') AND NOT EXISTS (SELECT FROM fleetlog.stat_session WHERE client_id = '$id' AND connected)", 't', "$id to be gone");
    return;
}
sub cut { my ($c, $id) = @_; $c->reset; is_gone($id); return; }
my $publisher;
sub reconnect_publisher { $publisher = $s->device('d1', client_id => 'publisher'); return; }
reconnect_publisher();
sub send_all { my ($topic, @texts) = @_; $publisher->publish_acked($topic, $_) for @texts; return; }
sub texts { return join ' ', map { $_->{payload} } @_; }
sub sorted { return join ' ', sort { $a <=> $b } map { $_->{payload} } @_; }
sub publishes { my ($c, $n) = @_; return map { $c->expect('PUBLISH') } 1 .. $n; }
# All that come to these members until there are so many; each is acknowledged.
sub collect
{
    my ($n, @members) = @_;
    my $end = time + $FleetlogTest::TIMEOUT;
    my @got;
    while (@got < $n && time < $end) { push @got, map { $_->messages(1, 0.02) } @members; }
    return @got;
}
# Acknowledgements were read when this is answered.
sub settle { my ($c) = @_; $c->ping; return; }
# The same where deliveries may still come: each is acknowledged, until a ping is answered without one before it.
sub finish
{
    my ($c) = @_;
    my @got;
    for (my $more = 1; $more;)
    {
        $more = 0;
        $c->send_hex('c000');
        while (ref(my $p = $c->read_packet))
        {
            last if $p->{name} eq 'PINGRESP';
            $more = 1;
            if ($p->{name} eq 'PUBREL') { $c->pubcomp($p->{pid}); next; }
            next if $p->{name} ne 'PUBLISH';
            $c->receipt($p);
            push @got, $p;
        }
    }
    return @got;
}

# ---- O45: a member goes with what it holds ----

my $share = '$share/o45/acme/d1/o45';
my @m = map { member("a$_", expiry => 0, rm => 5) } 1 .. 3;
$_->subscribe([ [ $share, 1 ] ]) for @m;
send_all('acme/d1/o45', 1 .. 15);
my @held = publishes($m[0], 5);
is(scalar(collect(10, @m[ 1, 2 ])), 10, 'the others have what the first one does not');
settle($_) for @m[ 1, 2 ];
$m[0]->disconnect;
my @moved = collect(5, @m[ 1, 2 ]);
is(sorted(@moved), sorted(@held), 'O45: what a member that ends its session has not acknowledged comes to the others');
is(join(' ', map { $_->{dup} } @moved), '0 0 0 0 0', 'O45: as new deliveries');
ok($m[1]->quiet(0.1) && $m[2]->quiet(0.1), 'O45: once');
$_->disconnect for @m[ 1, 2 ];

# ---- O46: members that are away hold up nothing ----

$share = '$share/o46/acme/d1/o46';
@m = map { member("b$_", rm => 4) } 1 .. 5;
$_->subscribe([ [ $share, 1 ] ]) for @m;
# Two of them take with them as many as they may hold; the others get the rest.
send_all('acme/d1/o46', 1 .. 40);
@held = (publishes($m[1], 4), publishes($m[2], 4));
is(scalar(collect(32, @m[ 0, 3, 4 ])), 32, 'three of five have room');
settle($_) for @m[ 0, 3, 4 ];
cut($m[$_], 'b' . ($_ + 1)) for 1 .. 4;
is(sorted(collect(8, $m[0])), sorted(@held), 'O46: what members that go away had not acknowledged moves on at once');
send_all('acme/d1/o46', 101 .. 200);
is(texts(collect(100, $m[0])), join(' ', 101 .. 200), 'O46: the one that is there gets all that comes');
settle($m[0]);
# They come back: nothing of that is theirs any more.
my @back = map { member("b$_") } 2 .. 5;
is(join(' ', map { $_->{present} } @back), '1 1 1 1', 'their sessions were kept');
send_all('acme/d1/o46', 201 .. 250);
is(sorted(collect(50, $m[0], @back)), join(' ', 201 .. 250), 'O46: who comes back shares what is new, and gets nothing that others have had');
settle($_) for $m[0], @back;
cut($back[$_], 'b' . ($_ + 2)) for 0 .. 3;
$m[0]->disconnect;
is_gone('b1');

# ---- all members are away ----

# Each way in which a group may be left alone; its members find everything when they come back.
my %again = (
    reconnect => sub { },
    restart => sub { $s->node->restart; $s->wait_for_mqtt; reconnect_publisher(); },
    'kill -9' => sub { $s->kill9_and_start; $s->wait_for_mqtt; reconnect_publisher(); });
for my $version (4, 5)
{
    for my $how ('reconnect', 'restart', 'kill -9')
    {
        my $label = "version $version, $how";
        my $topic = "acme/d1/away/$version/" . $how =~ tr/ -//dr;
        my $id = "away-$version-" . $how =~ tr/ //dr;
        my $filter = "\$share/away/$topic/#";
        my $c = member($id, version => $version);
        $c->subscribe([ [ $filter, 1 ] ]);
        send_all("$topic/a", 1 .. 10);
        # Three are acknowledged, seven are under way.
        my @under = publishes($c, 10);
        $c->puback($under[$_]{pid}) for 0, 2, 4;
        settle($c);
        cut($c, $id);
        send_all("$topic/a", 11 .. 20);
        $again{$how}->();
        send_all("$topic/b", 21 .. 30);
        $c = member($id, version => $version);
        is($c->{present}, 1, "$label: the session is there");
        my @got = publishes($c, 7);
        is(texts(@got), texts(@under[ 1, 3, 5 .. 9 ]), "O45: $label: the only member gets what it had not acknowledged");
        is(join(' ', map { $_->{pid} } @got), join(' ', map { $_->{pid} } @under[ 1, 3, 5 .. 9 ]), "$label: under the same identifiers");
        is(join(' ', map { $_->{dup} } @got), '1 1 1 1 1 1 1', "$label: marked as sent again");
        $c->puback($_->{pid}) for @got;
        is(sorted(collect(20, $c)), join(' ', 11 .. 30), "O46: $label: and all that came while nobody was there");
        settle($c);
        send_all("$topic/a", 31);
        is(texts(collect(1, $c)), '31', "$label: then what is live");
        settle($c);
        # The first one is away again; another session of the group comes first.
        my $other = member("other-$id", version => $version);
        $other->subscribe([ [ $filter, 1 ] ]);
        cut($other, "other-$id");
        send_all("$topic/a", 41 .. 44);
        my @mine = publishes($c, 4);
        is(texts(@mine), '41 42 43 44', "$label: one of two is there");
        cut($c, $id);
        send_all("$topic/a", 45);
        $other = member("other-$id", version => $version);
        is(sorted(collect(5, $other)), '41 42 43 44 45', "O46: $label: another one takes over what was left, and goes on");
        settle($other);
        $c = member($id, version => $version);
        send_all("$topic/a", 46 .. 49);
        is(sorted(collect(4, $c, $other)), '46 47 48 49', "O46: $label: the first one gets nothing of that again");
        settle($_) for $c, $other;
        # The group ends with its last session: who comes then begins anew.
        $_->unsubscribe($filter) for $c, $other;
        $_->disconnect for $c, $other;
        is_gone($id);
        is_gone("other-$id");
        send_all("$topic/a", 51);
        $c = member($id, version => $version);
        $c->subscribe([ [ $filter, 1 ] ]);
        send_all("$topic/a", 52);
        is(texts(collect(1, $c)), '52', "$label: a group that nobody has any more begins anew");
        settle($c);
        $c->unsubscribe($filter);
        $c->disconnect;
    }
}

# Sessions that end while they are away leave the group to the others, or to nobody.
$share = '$share/ends/acme/d1/ends';
my $short = member('short', expiry => 1);
my $long = member('long');
$_->subscribe([ [ $share, 1 ] ]) for $short, $long;
cut($long, 'long');
send_all('acme/d1/ends', 1, 2);
@held = publishes($short, 2);
cut($short, 'short');
$s->wait_for("SELECT count(*) FROM fleetlog.stat_session WHERE client_id = 'short' AND NOT ending", 0, 'the session to end');
send_all('acme/d1/ends', 3);
$long = member('long');
is(sorted(collect(3, $long)), '1 2 3', 'O46: what a session had when its time was up comes to another one of its group');
settle($long);
cut($long, 'long');
member('long', clean => 1, expiry => 0)->disconnect;
send_all('acme/d1/ends', 4);
my $new = member('new');
$new->subscribe([ [ $share, 1 ] ]);
send_all('acme/d1/ends', 5);
is(texts(collect(1, $new)), '5', 'a clean start was the end of the last one: a new group');
$new->disconnect;

# Takeover of the only member, while messages come.
$share = '$share/taken/acme/d1/taken';
my $c = member('taken');
$c->subscribe([ [ $share, 1 ] ]);
my ($n, %seen) = (0);
for my $round (1 .. 20)
{
    send_all('acme/d1/taken', map { ++$n } 1 .. 2);
    $seen{ $_->{payload} }++ for $c->messages(1);
    my $next = $s->raw;
    $next->send_raw($next->connect_packet(client_id => 'taken', user => 'acme/d1', password => 'pw-d1', clean => 0, properties => [ [ 17, 300 ] ]));
    send_all('acme/d1/taken', map { ++$n } 1 .. 2);
    $next->expect('CONNACK');
    $c->close;
    $c = $next;
}
my $end = time + $FleetlogTest::TIMEOUT;
while (keys %seen < $n && time < $end) { $seen{ $_->{payload} }++ for $c->messages(1, 0.1); }
is(join(' ', sort { $a <=> $b } keys %seen), join(' ', 1 .. $n), 'O45: twenty takeovers of the only member: nothing is lost');
$c->disconnect;

# QoS 2: what is under way stays its member's.
$share = '$share/exact/acme/d1/exact';
$c = member('exact');
my $second = member('second');
$c->subscribe([ [ $share, 2 ] ]);
$publisher->publish_released('acme/d1/exact', $_) for 1, 2;
my @exact = publishes($c, 2);
cut($c, 'exact');
$second->subscribe([ [ $share, 2 ] ]);
$publisher->publish_released('acme/d1/exact', 3);
is($second->expect('PUBLISH')->{payload}, '3', 'QoS 2: another member gets what is new');
$c = member('exact');
@back = publishes($c, 2);
is(texts(@back) . ' ' . join(' ', map { $_->{pid} } @back), texts(@exact) . ' ' . join(' ', map { $_->{pid} } @exact), 'O45: QoS 2: and the first one its own when it is back');
ok($second->quiet(0.1), 'nobody else');
$_->close for $c, $second;

# ---- a crash ----

# A member alone, at QoS 2: one delivery is not answered, one is not released to its end, three are complete.
my $alone = member('crash');
$alone->subscribe([ [ '$share/crash/acme/d1/crash', 2 ] ]);
$publisher->publish_released('acme/d1/crash', $_) for 1 .. 5;
@exact = publishes($alone, 5);
for my $i (0 .. 3)
{
    $alone->pubrec($exact[$i]{pid});
    $alone->expect('PUBREL');
    $alone->pubcomp($exact[$i]{pid}) if $i < 3;
}

# Two at QoS 1: the session that comes back first has the newer checkpoint, and what the other one was given is in no journal.
$share = '$share/crashes/acme/d1/crashes';
my ($holds, $takes) = (member('holds', rm => 2), member('takes'));
$_->subscribe([ [ $share, 1 ] ]) for $holds, $takes;
send_all('acme/d1/crashes', 1 .. 20);
@held = publishes($holds, 2);
is(scalar(collect(18, $takes)), 18, 'one holds two, the other one has the rest');
settle($takes);
my $group = "SELECT kind, tenant, name, filter, sum(lag), max(members), sum(returned) FROM fleetlog.stat_group WHERE name = 'crashes' GROUP BY 1, 2, 3, 4";
$s->wait_for($group, "mqtt|acme|crashes|$share|0|2|0", 'stat_group to show both');
cut($takes, 'takes');
is($s->sql($group), "mqtt|acme|crashes|$share|0|1|0", 'and then one');

# Two at QoS 2, with some deliveries complete, some under way and some to come.
my %pair = map { $_ => member($_, rm => 5) } 'left', 'right';
$_->subscribe([ [ '$share/pair/acme/d1/pair', 2 ] ]) for values %pair;
$publisher->publish_released('acme/d1/pair', $_) for 1 .. 50;
my %had = map { $_->{payload} => 1 } map { $_->completed(12) } values %pair;

$s->kill9_and_start;
$s->wait_for_mqtt;
$_->close for $alone, $holds, values %pair;
reconnect_publisher();

$publisher->publish_released('acme/d1/crash', 6);
$alone = member('crash');
is($alone->{present}, 1, 'QoS 2: after a crash the session is there');
my @came;
while (!@came || $came[-1] ne '6')
{
    my $p = $alone->read_packet;
    last unless ref $p;
    if ($p->{name} eq 'PUBREL') { $alone->pubcomp($p->{pid}); next; }
    push @came, $p->{payload};
    $alone->pubrec($p->{pid});
}
is(join(' ', @came), '5 6', 'O45: QoS 2: what was complete does not come again, what was not does');
$alone->close;

$takes = member('takes');
%seen = map { $_->{payload} => 1 } $takes->messages(2);
$holds = member('holds');
$end = time + $FleetlogTest::TIMEOUT;
while ((grep { !$seen{ $_->{payload} } } @held) && time < $end) { $seen{ $_->{payload} }++ for map { $_->messages(1, 0.1) } $holds, $takes; }
is(join(' ', grep { !$seen{$_} } map { $_->{payload} } @held), '', 'kill -9: what a member had not acknowledged comes to one of them');
FleetlogTest::wait_until(sub { finish($_) for $holds, $takes; $s->sql("SELECT sum(lag + returned) FROM fleetlog.stat_group WHERE name = 'crashes'") == 0 }, 'the group to have all');
finish($_) for $holds, $takes;
$_->unsubscribe($share) for $holds, $takes;
$_->disconnect for $holds, $takes;
is_gone($_) for 'holds', 'takes';
is($s->sql("SELECT count(*) FROM fleetlog.stat_group WHERE name = 'crashes'"), 0, 'a group that nobody has is not shown');

%pair = map { $_ => member($_, rm => 5) } 'left', 'right';
my @again = map { finish($_) } values %pair;
FleetlogTest::wait_until(sub { push @again, map { finish($_) } values %pair; $s->sql("SELECT sum(lag + returned) FROM fleetlog.stat_group WHERE name = 'pair'") == 0 }, 'the pair to have all');
push @again, map { finish($_) } values %pair;
$had{ $_->{payload} } = 1 for @again;
is(join(' ', grep { !$had{$_} } 1 .. 50), '', 'QoS 2: a crash while two members are served loses nothing');
$_->disconnect for values %pair;

# ---- O47: the plain twin ----

$c = member('twin', expiry => 0);
is(join(',', $c->subscribe([ [ '$share/n/acme/d1/twin', 1 ] ])), '1', 'a shared filter');
is(join(',', $c->subscribe([ [ 'acme/d1/twin', 1 ] ])), '1', 'and its plain twin');
send_all('acme/d1/twin', 1);
is(texts(collect(2, $c)), '1 1', 'O47: both deliver');
is(join(',', $c->unsubscribe('acme/d1/twin')), '0', 'the plain one ends');
send_all('acme/d1/twin', 2, 3);
is(texts(collect(2, $c)), '2 3', 'O47: one copy each, by way of the group');
is(join(',', $c->unsubscribe('acme/d1/twin', '$share/m/acme/d1/twin', '$share/n/acme/d1/twin/#', '$share/n/acme/d1/twin', '$share/n/acme/d1/twin')), join(',', 0x11, 0x11, 0x11, 0, 0x11),
    'O47: UNSUBSCRIBE tells what was held from what was not');
send_all('acme/d1/twin', 4);
$c->subscribe([ [ 'acme/d1/twin', 1 ], [ '$share/n/acme/d1/twin', 1 ] ]);
is(join(',', $c->unsubscribe('$share/n/acme/d1/twin')), '0', 'the other way');
send_all('acme/d1/twin', 5);
is(texts(collect(1, $c)), '5', 'O47: the shared one ends, the plain one stays');
ok($c->quiet(0.1), 'O47: and nothing else comes');

is($s->density_faults, '', 'offsets dense');
is($s->crashes, '', 'no other crash');
$s->node->stop;
done_testing();
