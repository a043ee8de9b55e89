# M1, M4, M7: a group of shared subscriptions whose members subscribe at QoS 1 and at QoS 2 over kill -9 of the server.  What was
# acknowledged to the publisher comes to some member at least once, whoever was there and whoever comes back first: members that
# hold deliveries of either kind, that join right before the crash, that are away.  Rounds: FLEETLOG_ROUNDS, else 4.
use strict;
use warnings;
use List::Util qw(shuffle);
use Test::More;
use FleetlogTest;

my $rounds = $ENV{FLEETLOG_ROUNDS} // 4;
my $seed = $ENV{FLEETLOG_SEED} // int(rand(2**31));
diag("FLEETLOG_SEED=$seed");
srand $seed;

my $s = FleetlogTest->new('group_kill9', conf => "fleetlog.workers = 2\nfleetlog.worker_retry = 100ms\n");
$s->fleet(devices => 1, shards => 2);
my @filter = map { "\$share/g/acme/d1/$_/#" } 'a', 'b';

my $connections = 0;

# A member of the group.  Its receive maximum differs from time to time.
sub join_group
{
    my ($id, $qos) = @_;
    my $c = $s->raw;
    my $ack = $c->login(client_id => $id, user => 'acme/d1', password => 'pw-d1', clean => 0, properties => [ [ 17, 3600 ], [ 33, 1 + int rand 12 ] ]);
    die "$id is refused" unless ref $ack && $ack->{reason} == 0;
    $c->subscribe([ map { [ $_, $qos ] } @filter ]) unless $ack->{session_present};
    $c->{name} = "$id, connection " . ++$connections;
    return $c;
}

# What has come to a member by now.  It takes and acknowledges each with this probability; the rest it does not have.
my %history;
sub serve
{
    my ($c, $seen, $part) = @_;
    my $n = 0;
    while (1)
    {
        my $p = $c->read_packet(0.002);
        last unless ref $p;
        $n++;
        if ($p->{name} eq 'PUBREL') { $c->pubcomp($p->{pid}) if rand() < $part; }
        elsif ($p->{name} eq 'PUBLISH')
        {
            my $taken = rand() < $part;
            $history{ $p->{payload} } .= "\n    $c->{name}: identifier $p->{pid}, QoS $p->{qos}, DUP $p->{dup}, " . ($taken ? 'taken' : 'not taken');
            next unless $taken;
            $seen->{ $p->{payload} }++;
            $c->receipt($p);
        }
    }
    return $n;
}

my %qos = (exact1 => 2, exact2 => 2, least1 => 1, least2 => 1);
my %members = map { $_ => join_group($_, $qos{$_}) } keys %qos;
my (%pending, %acked, %handled);
my $next = 1;

# At either QoS; it is acknowledged with PUBACK or PUBREC.
sub publish
{
    my ($c, $topic) = @_;
    my $pid = $c->publish($topic, $next, qos => 1 + int rand 2);
    $pending{$pid} = $next++;
    return;
}
sub answers
{
    my ($c) = @_;
    while (ref(my $p = $c->read_packet(0.001)))
    {
        $acked{ delete $pending{ $p->{pid} } } = 1 if $p->{name} =~ /^PUB(ACK|REC)$/ && $p->{reason} == 0;
        $c->pubrel($p->{pid}) if $p->{name} eq 'PUBREC';
    }
    return;
}

for my $round (1 .. $rounds)
{
    my $publisher = $s->device('d1', client_id => "publisher$round");
    my $enough = 150 + int rand 150;
    %pending = ();

    my %now;
    for my $turn (1 .. $enough)
    {
        my $topic = sprintf 'acme/d1/%s/%d', $next % 3 ? 'a' : 'b', $next % 7;
        publish($publisher, $topic);
        answers($publisher);
        my $who = (sort keys %members)[ int rand scalar keys %members ];
        serve($members{$who}, \%now, 0.7);
        # Some leave, and come back or do not, before the crash.
        if (keys %members > 1 && rand() < 0.02) { (delete $members{$who})->reset; }
        if (rand() < 0.02) { my @away = grep { !$members{$_} } keys %qos; $members{ $away[0] } = join_group($away[0], $qos{ $away[0] }) if @away; }
    }
    # One that has no checkpoint of its own yet.
    my $late = "late$round";
    $qos{$late} = 1 + $round % 2;
    $members{$late} = join_group($late, $qos{$late});
    publish($publisher, 'acme/d1/a/x') for 1 .. 5;
    serve($members{$late}, \%now, 0.3);

    $s->kill9;
    # What had left before counts.
    answers($publisher);
    serve($_, \%now, 0) for values %members;
    $_->close for values %members, $publisher;
    %members = ();
    $s->start_after_crash;
    $handled{$_} += $now{$_} for keys %now;

    # Only who comes first is there at the beginning; most of the others are back later, and one stays away.
    my @order = shuffle(sort keys %qos);
    pop @order if @order > 2;
    my %after;
    for my $id (@order)
    {
        $members{$id} = join_group($id, $qos{$id});
        serve($_, \%after, 1) for values %members;
    }
    # Who stayed away holds what it was sent before the crash, and brings it back.
    for my $id (grep { !$members{$_} } keys %qos) { serve($_, \%after, 1) for values %members; $members{$id} = join_group($id, $qos{$id}); }
    my $end = time + 20;
    my @lost;
    do
    {
        serve($_, \%after, 1) for values %members;
        @lost = grep { !$handled{$_} && !$after{$_} } sort { $a <=> $b } keys %acked;
    } while (@lost && time < $end);
    $handled{$_} += $after{$_} for keys %after;

    is("@lost[ 0 .. ($#lost < 9 ? $#lost : 9) ]", '', "round $round: each of " . keys(%acked) . ' acknowledged messages was taken by a member')
      or diag(map { "$_:" . ($history{$_} // ' never sent') . "\n" } @lost), last;
}

is($s->crashes, '', 'no crash of a process');
$s->node->stop;
done_testing();
