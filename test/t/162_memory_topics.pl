# M3: topics that are carried in memory only, below a mount without a stream: QoS 0 from one client to those of all front
# doors, nothing kept, nothing acknowledged that is not kept, and exact counts of what a slow front door missed.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('memory', conf => "fleetlog.workers = 2\nfleetlog.memory_topic_buffer = 64\n");
$s->fleet(devices => 2);
$s->sql(<<'SQL');
SELECT fleetlog.mount('acme/d1/live/', NULL);
SELECT fleetlog.mount('acme/d1/live/kept/', 'telemetry');
SELECT fleetlog.mount('acme/d1/live/short/', NULL, max_payload_bytes => 10, max_topic_levels => 5);
SELECT fleetlog.allow('acme', 'subscribe', 'acme/d1/#');
SQL

sub door { return $s->sql("SELECT door FROM fleetlog.stat_connection WHERE client_id = '$_[0]'"); }
sub payloads { return join ' ', map { $_->{payload} } @_ }

my $pub = $s->device('d1', client_id => 'pub');
$s->wait_for("SELECT count(*) = 1 FROM fleetlog.stat_connection WHERE client_id = 'pub'");

# The kernel chooses the front door: clients come until both have some.
my @subs;
do
{
    push @subs, map { $s->device('d2', client_id => 'sub' . (@subs + $_)) } 1 .. 8;
    $s->wait_for(sprintf "SELECT count(*) = %d FROM fleetlog.stat_connection WHERE client_id LIKE 'sub%%'", scalar @subs);
} until $s->sql("SELECT count(DISTINCT door) FROM fleetlog.stat_connection WHERE client_id LIKE 'sub%'") == 2 || @subs == 160;
is(join(',', map { $_->subscribe([ [ 'acme/d1/#', 1 ] ], properties => [ [ 11, 5 ] ]) } @subs), join(',', (1) x @subs), 'subscribers of both kinds of topics');

# ---- from one to all ----

my @properties = ([ 1, 1 ], [ 3, 'text/plain' ], [ 8, 'reply/to' ], [ 9, 'corr' ], [ 38, 'a', '1' ], [ 38, 'a', '2' ]);
$pub->publish('acme/d1/live/t', "m$_", properties => \@properties) for 1 .. 50;
for my $sub (@subs)
{
    my @m = $sub->messages(50);
    is(payloads(@m), join(' ', map { "m$_" } 1 .. 50), 'each subscriber gets each message, in order');
    next if $sub != $subs[0];
    is($m[0]{qos}, 0, 'at QoS 0');
    is(join(' ', map { join ',', @$_ } sort { $a->[0] <=> $b->[0] || $a->[-1] cmp $b->[-1] } @{ $m[0]{properties} }),
        '1,1 3,text/plain 8,reply/to 9,corr 11,5 38,a,1 38,a,2', 'with its properties, and the subscription identifier');
}
is($s->sql('SELECT count(*) FROM telemetry'), 0, 'no stream has any of it');
is($pub->publish_acked('acme/d1/live/kept/t', 'kept'), 0, 'a longer prefix may have a stream');
is(payloads($subs[0]->messages(1)), 'kept', 'which is delivered as ever');
$_->messages(1) for @subs[ 1 .. $#subs ];
is($s->sql("SELECT messages_in >= 50 AND messages_out >= 50 * ${\ scalar @subs} FROM fleetlog.stat_mount WHERE prefix = 'acme/d1/live/'"), 't', 'stat_mount counts them');

# No Local, and who subscribes later gets what comes later.
is(join(',', $pub->subscribe([ [ 'acme/d1/live/+', 4 ] ])), '0', 'the publisher subscribes with No Local');
my $echo = $s->device('d1', client_id => 'echo');
$echo->subscribe([ 'acme/d1/live/+' ]);
$echo->publish('acme/d1/live/t', 'echoed');
is(payloads($echo->messages(1)), 'echoed', 'its own message comes back to who wants it');
is(payloads($pub->messages(1)), 'echoed', 'another client gets it, too');
$pub->publish('acme/d1/live/t', 'own');
is(payloads($echo->messages(1)), 'own', 'nothing from before the subscription came');
$pub->ping;
ok($pub->quiet(0.2), 'and not to who wants no messages of its own');
is(payloads($_->messages(2)), 'echoed own', 'all others get both') for @subs;

# A will.
my $dying = $s->device('d1', client_id => 'dying', will => { topic => 'acme/d1/live/will', payload => 'gone', qos => 0 });
$dying->reset;
is(payloads($echo->messages(1)), 'gone', 'a will at QoS 0 is carried');
$_->messages(1) for @subs;
$pub->messages(1);

# ---- what is refused ----

sub refusal
{
    my ($topic, $payload, %opt) = @_;
    my $c = $s->device('d1', client_id => 'refused');
    $c->publish($topic, $payload, %opt);
    $c->send_hex('c000');
    my $p = $c->read_packet;
    return sprintf '%s %s', $p->{name}, $p->{name} eq 'PINGRESP' ? '' : sprintf '%02X', $p->{reason};
}
is(refusal('acme/d1/live/t', 'x', qos => 1), 'PUBACK 83', 'QoS 1 is refused: nobody would have it');
is(refusal('acme/d1/live/t', 'x', qos => 2), 'PUBREC 83', 'QoS 2, too');
is(refusal('acme/d1/live/t', 'x', qos => 1, retain => 1), 'DISCONNECT 9A', 'and what is to be retained');
is(refusal('acme/d1/live/short/t', 'x' x 11, qos => 1), 'PUBACK 97', "a mount's limits hold");
is(refusal('acme/d1/live/short/5/6', 'x', qos => 1), 'PUBACK 90', 'each of them');
my $before = $s->sql("SELECT sum(publish_refused) FROM fleetlog.stat_worker");
is(refusal('acme/d1/live/t', 'x' x 20000), 'PINGRESP ', 'a message larger than a quarter of the buffer');
$s->wait_for("SELECT sum(publish_refused) > $before FROM fleetlog.stat_worker");
ok($echo->quiet(0.2), 'goes nowhere, and is counted');
like($s->sql_error("SELECT fleetlog.publish('acme/d1/live/t', 'x')"), qr/carried in memory only/, 'SQL has no way in');
like($s->sql_error("SELECT fleetlog.mount('acme/d2/live/', NULL, state => 'telemetry')"), qr/cannot have a state table/, 'no state table without a stream');
is(refusal('acme/d1/live/t', 'y' x 8000), 'PINGRESP ', 'a large one that fits');
is(length(($echo->messages(1))[0]{payload}), 8000, 'arrives whole');
$_->messages(1) for @subs;
$pub->messages(1);

# ---- a front door that does not read ----

# It stands still before it acknowledges something, and the ring goes round meanwhile.
my ($slow) = grep { door("sub$_") != door('pub') } 1 .. @subs;
my ($near) = grep { door("sub$_") == door('pub') } 1 .. @subs;
my $index = door("sub$slow");
$s->stop_points('door_before_ack');
my $held = $subs[ $slow - 1 ]->publish('acme/d2/t', 'x', qos => 1);
$s->wait_stopped_at('door_before_ack');
for my $n (1 .. 300) { $pub->publish('acme/d1/live/t', "n$n " . 'z' x 1000); $pub->ping if $n % 20 == 0; }
is(scalar($subs[ $near - 1 ]->messages(300)), 300, 'at the front door of the publisher nothing is lost');
$s->stop_points();
is($subs[ $slow - 1 ]->expect('PUBACK')->{pid}, $held, 'it goes on');
$pub->publish('acme/d1/live/t', 'last');
my @came;
push @came, $subs[ $slow - 1 ]->messages(1) until @came && $came[-1]{payload} eq 'last';
my $lost = $s->sql("SELECT lost_memory FROM fleetlog.stat_worker WHERE kind = 'front_door' AND index = $index");
cmp_ok($lost, '>', 0, 'the other one has missed some');
is($lost + @came, 301, 'and counts exactly how many');
is($s->sql("SELECT count(*) FROM fleetlog.stat_worker WHERE lost_memory > 0"), 1, 'nobody else has');
my @numbers = map { $_->{payload} =~ /^n(\d+)/ ? $1 : 301 } @came;
is(join(' ', @numbers), join(' ', 301 - $#numbers .. 301), 'what came is the newest, in order');

# ---- changes of mounts ----

$s->sql("SELECT fleetlog.alter_mount('acme/d1/live/', 'telemetry')");
FleetlogTest::wait_until(sub { $echo->messages(1, 0.1); $pub->publish('acme/d1/live/t', 'now', qos => 1); my $p; $p = $pub->read_packet until ref $p && $p->{name} eq 'PUBACK'; $p->{reason} == 0 }, 'the mount to have a stream');
is($s->sql("SELECT count(*) > 0 FROM telemetry WHERE key = 'acme/d1/live/t'"), 't', 'which takes its topics then');

is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
