SELECT _ts, auction, bidder, price, extra FROM bids
