# M1: shared subscriptions.  The members of a group, whatever front door has them, get each new record once between them;
# what a member has not acknowledged when it goes is sent to another; nobody's slowness loses anything.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('shared', conf => "fleetlog.workers = 2\n");
$s->fleet(devices => 2);
my $pub = $s->device('d1', client_id => 'pub');

sub publish { my ($topic, @payloads) = @_; $pub->publish_acked($topic, $_) == 0 or die "refused: $_" for @payloads; return; }
sub payloads { return join ' ', map { $_->{payload} } @_ }
sub in_order { my ($last) = (-1); for my $p (@_) { return 0 if $p->{payload} <= $last; $last = $p->{payload}; } return 1; }

# Reads from all of them until so many have come, and as long again nothing else may.
sub collect
{
    my ($count, @clients) = @_;
    my %got = map { $_ => [] } 0 .. $#clients;
    my $end = time + 30;
    my $n = 0;

    while ($n < $count && time < $end)
    {
        for my $i (0 .. $#clients)
        {
            my @m = $clients[$i]->messages(1, 0.02);
            $n += @m;
            push @{ $got{$i} }, @m;
        }
    }
    return map { $got{$_} } 0 .. $#clients;
}

sub doors { return $s->sql("SELECT count(DISTINCT door) FROM fleetlog.stat_connection WHERE client_id LIKE '$_[0]%'"); }

# ---- members split what is new ----

my %announced = map { $_->[0] => $_->[1] } @{ $s->raw->login(client_id => 'x', user => 'acme/d1', password => 'pw-d1')->{properties} };
is($announced{42} // 1, 1, 'shared subscriptions are announced');

my $all = $s->device('d1', client_id => 'all');
is(join(',', $all->subscribe([ [ 'acme/d1/n', 1 ] ])), '1', 'an ordinary subscriber');
publish('acme/d1/n', 0);
is(payloads($all->messages(1)), '0', 'gets what was published before there was a group');

# The kernel chooses the front door: sixteen members are on both, but for one run in ten thousand.
my @members = map { $s->device('d1', client_id => "member$_") } 1 .. 16;
is(join(',', $_->subscribe([ [ '$share/g/acme/d1/#', 1 ] ], properties => [ [ 11, 7 ] ])), '1', 'a member is granted QoS 1') for @members;
FleetlogTest::wait_until(sub { doors('member') == 2 }, 'members at both front doors');
publish('acme/d1/n', 1 .. 320);
my @got = collect(320, @members);
is(join(' ', sort { $a <=> $b } map { $_->{payload} } map { @$_ } @got), join(' ', 1 .. 320), 'the members get each message once between them');
is(scalar(grep { @$_ == 0 } @got), 0, 'no member is left out');
is(scalar(grep { !in_order(@$_) } @got), 0, 'each gets its part in order');
is(join(',', map { "@$_" } grep { $_->[0] == 11 } @{ $got[0][0]{properties} }), '11 7', 'with the subscription identifier');
is(payloads($all->messages(320)), join(' ', 1 .. 320), 'the ordinary subscriber gets all of them');
ok($all->quiet(0.3), 'once');
is(scalar(grep { !$_->quiet(0.02) } @members), 0, 'nobody gets anything else');

# Another share name is another group.
my $other = $s->device('d1', client_id => 'other');
$other->subscribe([ [ '$share/h/acme/d1/#', 0 ] ]);
publish('acme/d1/n', 400 .. 403);
is(payloads($other->messages(4)), '400 401 402 403', 'another group gets all, too');
is(join(' ', sort map { $_->{payload} } map { @$_ } collect(4, @members)), '400 401 402 403', 'and so does the first one');
$all->messages(4);
$other->disconnect;

# ---- a member goes ----

$_->disconnect for splice @members, 1;
my $stays = $members[0];
my $leaves = $s->device('d1', client_id => 'leaves', properties => [ [ 33, 3 ] ]);
$leaves->subscribe([ [ '$share/g/acme/d1/#', 1 ] ]);
FleetlogTest::wait_until(sub { $s->sql("SELECT count(*) FROM fleetlog.stat_connection WHERE client_id LIKE 'member%'") == 1 }, 'the others to be gone');
publish('acme/d1/n', 501 .. 520);
my @held;
while (@held < 3) { my $p = $leaves->read_packet; push @held, $p if ref $p && $p->{name} eq 'PUBLISH'; }
my @stayed = $stays->messages(17);
is(scalar(@stayed), 17, 'what one member has no room for goes to the other');
ok($leaves->quiet(0.2), 'its receive maximum holds');
$leaves->puback($held[0]{pid});
$leaves->ping;
$leaves->reset;
my @returned = $stays->messages(2);
is(payloads(@returned), payloads(@held[ 1, 2 ]), 'what it did not acknowledge comes to the other one, in order');
ok($stays->quiet(0.3), 'and nothing twice');
ok(in_order(@stayed), 'in order before');
$all->messages(20);

# What a member refuses is nobody else's.
my $picky = $s->device('d1', client_id => 'picky', properties => [ [ 33, 1 ] ]);
$picky->subscribe([ [ '$share/g/acme/d1/#', 1 ] ]);
# Whose turn it is, is for the front doors to say: as many as it takes until one comes to it.
my $n = 530;
my $unwanted;
FleetlogTest::wait_until(sub { publish('acme/d1/n', $n++); $unwanted = $picky->read_packet(0.1); return ref $unwanted; }, 'one to come to it');
$picky->answer(0x40, $unwanted->{pid}, 0x99);
$picky->ping;
$picky->reset;
FleetlogTest::wait_until(sub { $s->sql("SELECT count(*) FROM fleetlog.stat_connection WHERE client_id = 'picky'") == 0 }, 'it to be gone');
publish('acme/d1/n', $n);
my @rest = ($stays->messages(1));
push @rest, $stays->messages(1) while $rest[-1] && $rest[-1]{payload} != $n;
is(scalar(grep { $_->{payload} == $unwanted->{payload} } @rest), 0, 'MQTT-4.8.2-6: what it refused comes to nobody');
$all->messages($n - 529);

# QoS 2: a delivery that was begun may not be sent to anybody else.
my $exact = $s->device('d1', client_id => 'exact');
$exact->subscribe([ [ '$share/two/acme/d1/two', 2 ] ]);
$pub->publish_released('acme/d1/two', 'a');
my $p = $exact->read_packet;
is("$p->{name} $p->{qos} $p->{payload}", 'PUBLISH 2 a', 'a member at QoS 2');
my $second = $s->device('d1', client_id => 'second');
$second->subscribe([ [ '$share/two/acme/d1/two', 2 ] ]);
$exact->reset;
FleetlogTest::wait_until(sub { $s->sql("SELECT count(*) FROM fleetlog.stat_connection WHERE client_id = 'exact'") == 0 }, 'it to be gone');
$pub->publish_released('acme/d1/two', 'b');
$p = $second->read_packet;
is($p->{payload}, 'b', 'MQTT-4.8.2-5: its message goes to nobody else');
$second->pubrec($p->{pid});
is($second->read_packet->{name}, 'PUBREL', 'and the next is delivered as always');
$second->pubcomp($p->{pid});

# ---- nobody has room ----

my @full = map { $s->device('d2', client_id => "full$_", properties => [ [ 33, 1 ] ]) } 1 .. 2;
$_->subscribe([ [ '$share/full/acme/d2/#', 1 ] ]) for @full;
my $pub2 = $s->device('d2', client_id => 'pub2');
$pub2->publish_acked('acme/d2/n', $_) for 1 .. 50;
my @first = map { $_->read_packet } @full;
is(join(' ', sort map { $_->{payload} } @first), '1 2', 'each has its one message');
ok($_->quiet(0.2), 'and no other') for @full;
$full[$_]->puback($first[$_]{pid}) for 0, 1;
is(join(' ', sort { $a <=> $b } map { $_->{payload} } map { @$_ } collect(48, @full)), join(' ', 3 .. 50), 'the others wait in the log, and none is lost');
is($s->sql('SELECT coalesce(sum(dropped), 0) FROM fleetlog.stat_connection'), 0, 'nothing counts as dropped');

# ---- UNSUBSCRIBE, the end of a group, rights, 3.1.1 ----

is(payloads($stays->messages(2)), 'a b', 'the first group has got the messages of the second, too');
is(join(',', $stays->unsubscribe('$share/g/acme/d1/#')), '0', 'UNSUBSCRIBE finds it by its whole text');
publish('acme/d1/n', 600);
is(payloads($all->messages(1)), '600', 'published without a group');
is(join(',', $stays->subscribe([ [ '$share/g/acme/d1/#', 1 ] ])), '1', 'the group again');
publish('acme/d1/n', 601);
is(payloads($stays->messages(1)), '601', 'a new group begins with what is new');
is(join(',', $stays->subscribe([ [ '$share/g/acme/d2/#', 1 ] ])), 0x87, 'the right is that of the filter');
my $old = $s->device('d1', client_id => 'old', version => 4);
is(join(',', $old->subscribe([ [ '$share/v4/acme/d1/#', 1 ], [ '$share/v4', 1 ] ])), '1,128', '3.1.1 has them too, where they are well formed');
publish('acme/d1/n', 602);
is(payloads($old->messages(1)), '602', 'and gets its messages');

# A stream that is mounted later belongs to groups that are there.
$s->sql("SELECT fleetlog.create_stream('later'); SELECT fleetlog.mount('acme/d1/later/', 'later')");
FleetlogTest::wait_until(sub { $s->sql("SELECT count(*) FROM later") >= 1 || $pub->publish_acked('acme/d1/later/x', 'later') && 0 }, 'the new mount');
publish('acme/d1/later/x', 'last');
my $last;
while (ref($last = ($old->messages(1))[0]) && $last->{payload} ne 'last') { }
is($last->{payload}, 'last', 'records of a stream that was mounted later');
is($s->sql("SELECT count(*) FROM later WHERE fleetlog.text(payload) = 'last'"), 1, 'which they are');

is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
